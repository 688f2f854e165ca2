//! `$pullAll: { field: [..] }`: takes away the elements that are equal to one of the values.

use arbor_bson::{Value, ValueRef};

use super::{Change, Run, Slot, pull};
use crate::{
    Error, Result,
    collation::ValueSet,
    stop::{tick, tick_for},
    text,
};

#[derive(Clone, Debug)]
pub(in crate::update) struct PullAll(Vec<Value>);

impl PullAll {
    pub(super) fn parse(operand: ValueRef) -> Result<PullAll> {
        match operand {
            ValueRef::Array(values) => {
                let own = |value: ValueRef| tick_for(value.content_bytes()).map(|()| value.to_value());
                Ok(PullAll(values.iter().map(own).collect::<Result<_>>()?))
            }
            other => {
                let ty = text::type_alias(other.ty());
                Err(Error::bad_value(format!("$pullAll requires an array argument but was given a {ty}")))
            }
        }
    }

    pub(super) fn modify(&self, slot: &mut Slot<'_>, run: &Run<'_>) -> Result<Change> {
        let mut listed = ValueSet::new(run.collation);
        for value in &self.0 {
            tick()?;
            listed.insert(value.as_ref());
        }
        pull::retain(slot, "$pull", |element| tick().map(|()| !listed.contains(element)))
    }
}
