//! The stage at the end of a pipeline that writes what comes out of it: `$out` or `$merge`.

use arbor_bson::{Array, ArrayBuf, ValueRef};
use arbor_lang::Context;

use super::merge::Merge;
use super::out::Out;
use crate::stage_spec::only_field;
use crate::{Cursor, Interrupt, Result, Scope};

#[derive(Clone)]
pub(crate) enum Sink {
    Out(Out),
    Merge(Box<Merge>),
}

impl Sink {
    /// The stages before it, and the sink if there is one.
    pub(crate) fn split(stages: Array<'_>, db: &str, context: &Context) -> Result<(ArrayBuf, Option<Sink>)> {
        let mut all: Vec<ValueRef<'_>> = stages.iter().collect();
        let sink = match all.last().copied().and_then(only_field) {
            Some(("$out", spec)) => Some(Sink::Out(Out::parse(spec, db)?)),
            Some(("$merge", spec)) => Some(Sink::Merge(Box::new(Merge::parse(spec, db, context)?))),
            _ => None,
        };
        if sink.is_some() {
            all.pop();
        }
        Ok((all.into_iter().collect(), sink))
    }

    /// Errors: nothing can be written to the target.
    pub(crate) fn check_target(&self, scope: &Scope<'_>) -> Result<()> {
        match self {
            Sink::Out(_) => Ok(()),
            Sink::Merge(merge) => merge.check_target(scope),
        }
    }

    /// With `bypass` the validator of the target is not asked.
    pub(crate) fn write(&self, scope: &Scope<'_>, cursor: Cursor, bypass: bool, interrupt: &Interrupt) -> Result<()> {
        let name = match self {
            Sink::Out(_) => "$out",
            Sink::Merge(_) => "$merge",
        };
        scope.refuse_in_transaction(|| format!("{name} cannot be used in a transaction"))?;
        match self {
            Sink::Out(out) => out.write(scope, cursor, bypass, interrupt),
            Sink::Merge(merge) => merge.write(scope, cursor, bypass, interrupt),
        }
    }
}
