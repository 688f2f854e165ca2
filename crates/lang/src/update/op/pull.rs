//! `$pull: { field: condition }`: takes away what the condition means.
//!
//! | condition | takes |
//! |---|---|
//! | `{ $gte: 5 }` (operators) | elements they hold for |
//! | `{ b: 1, c: { $gt: 2 } }` | elements that are documents and match it as a filter |
//! | a regular expression | strings it matches |
//! | any other value | elements equal to it; arrays and their elements in order |

use arbor_bson::{DocBuf, Value, ValueRef};

use super::{Change, Run, Slot};
use crate::{Collation, Context, Error, Filter, Result};

#[derive(Clone, Debug)]
pub(in crate::update) enum Pull {
    Equal(Value),
    Values(Filter),
    Documents(Filter),
}

impl Pull {
    pub(super) fn parse(operand: ValueRef, context: &Context) -> Result<Pull> {
        Ok(match operand {
            ValueRef::Document(condition) if starts_with_operator(condition.first()) => {
                Pull::Values(Filter::parse_operators(condition, context)?)
            }
            ValueRef::Document(condition) => Pull::Documents(Filter::parse(condition, context)?),
            ValueRef::Regex { .. } => Pull::Values(Filter::parse(DocBuf::new().with("", operand).as_doc(), context)?),
            other => Pull::Equal(other.to_value()),
        })
    }

    pub(super) fn modify(&self, slot: &mut Slot<'_>, run: &Run<'_>) -> Result<Change> {
        retain(slot, "$pull", |element| Ok(!self.takes(element, run.collation)?))
    }

    fn takes(&self, element: ValueRef, collation: &Collation) -> Result<bool> {
        match (self, element) {
            (Pull::Equal(value), element) => Ok(collation.equal(value.as_ref(), element)),
            (Pull::Values(filter), element) => filter.matches_value(element),
            (Pull::Documents(filter), ValueRef::Document(doc)) => filter.matches(doc),
            (Pull::Documents(_), _) => Ok(false),
        }
    }
}

fn starts_with_operator(first: Option<(&str, ValueRef)>) -> bool {
    first.is_some_and(|(name, _)| {
        name.starts_with('$')
            && !matches!(name, "$and" | "$or" | "$nor" | "$expr" | "$ref" | "$id" | "$db" | "$comment")
    })
}

/// Keeps the elements that `keep` accepts. Errors: not an array.
pub(super) fn retain(
    slot: &mut Slot<'_>,
    operator: &str,
    mut keep: impl FnMut(ValueRef) -> Result<bool>,
) -> Result<Change> {
    let Some(elements) = slot.elements() else {
        return Err(Error::bad_value(format!("Cannot apply {operator} to a non-array value")));
    };
    let before = elements.len();
    let mut failed = None;
    elements.retain_mut(|element| {
        if failed.is_some() {
            return true;
        }
        keep(element.value()).unwrap_or_else(|error| {
            failed = Some(error);
            true
        })
    });
    match failed {
        Some(error) => Err(error),
        None if elements.len() == before => Ok(Change::None),
        None => Ok(Change::Changed),
    }
}
