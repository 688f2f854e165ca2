//! `$pullAll: { field: [..] }`: takes away the elements that are equal to one of the values.

use arbor_bson::{Value, ValueRef, compare};

use super::{Change, Slot, pull};
use crate::{Error, Result, text};

#[derive(Clone, Debug)]
pub(in crate::update) struct PullAll(Vec<Value>);

impl PullAll {
    pub(super) fn parse(operand: ValueRef) -> Result<PullAll> {
        match operand {
            ValueRef::Array(values) => Ok(PullAll(values.iter().map(|value| value.to_value()).collect())),
            other => {
                let ty = text::type_alias(other.ty());
                Err(Error::bad_value(format!("$pullAll requires an array argument but was given a {ty}")))
            }
        }
    }

    pub(super) fn modify(&self, slot: &mut Slot<'_>) -> Result<Change> {
        let is_listed = |element: ValueRef| self.0.iter().any(|value| compare(value.as_ref(), element).is_eq());
        pull::retain(slot, "$pull", |element| Ok(!is_listed(element)))
    }
}
