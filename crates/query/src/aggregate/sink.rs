//! The stage at the end of a pipeline that writes what comes out of it: `$out` or `$merge`.

use arbor_bson::{Array, ArrayBuf, DocBuf, ValueRef};
use arbor_lang::Context;

use super::merge::Merge;
use super::out::Out;
use super::step::only_field;
use crate::cursor::BatchLimit;
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

/// The next documents that one transaction takes. None at the end.
pub(super) fn next_documents(
    scope: &Scope<'_>,
    cursor: &mut Cursor,
    interrupt: &Interrupt,
) -> Result<Option<Vec<DocBuf>>> {
    let settings = &scope.settings;
    let limit = BatchLimit { docs: settings.write_docs_max, bytes: settings.write_bytes_max };
    loop {
        interrupt.check()?;
        let batch = cursor.next_batch(limit, interrupt)?;
        let documents: Vec<DocBuf> = batch
            .docs
            .as_array()
            .iter()
            .filter_map(|value| match value {
                ValueRef::Document(doc) => Some(doc.to_buf()),
                _ => None,
            })
            .collect();
        if !documents.is_empty() {
            return Ok(Some(documents));
        }
        if batch.exhausted {
            return Ok(None);
        }
    }
}
