//! `$addToSet: { field: value }` or `{ field: { $each: [..] } }`: adds what no element is equal to.
//!
//! `{ a: [1, 2] }`, `{ $addToSet: { a: { $each: [2, 3, 3] } } }` -> `{ a: [1, 2, 3] }`

use arbor_bson::{Value, ValueRef};

use super::{Change, Run, Slot};
use crate::{Collation, Error, Result, text};

#[derive(Clone, Debug)]
pub(in crate::update) struct AddToSet {
    /// Each once.
    values: Vec<Value>,
}

impl AddToSet {
    pub(super) fn parse(operand: ValueRef, collation: &Collation) -> Result<AddToSet> {
        let mut values: Vec<Value> = Vec::new();
        let clauses = match operand {
            ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| name == "$each") => doc,
            other => return Ok(AddToSet { values: vec![other.to_value()] }),
        };
        for (name, value) in clauses {
            if name != "$each" {
                let operand = text::shell(operand);
                let message = format!("Found unexpected fields after $each in $addToSet: {operand}");
                return Err(Error::bad_value(message));
            }
            let ValueRef::Array(array) = value else {
                let ty = text::type_alias(value.ty());
                let message = format!("The argument to $each in $addToSet must be an array but it was of type {ty}");
                return Err(Error::type_mismatch(message));
            };
            for value in array.iter() {
                if !values.iter().any(|known| collation.equal(known.as_ref(), value)) {
                    values.push(value.to_value());
                }
            }
        }
        Ok(AddToSet { values })
    }

    pub(super) fn modify<'a>(&'a self, slot: &mut Slot<'a>, run: &Run<'a>) -> Result<Change> {
        if !slot.is_array() {
            let field = run.path.last().map(|name| &**name).unwrap_or_default();
            let ty = text::type_alias(slot.value().ty());
            return Err(Error::bad_value(format!(
                "Cannot apply $addToSet to a non-array field. Field named '{field}' has a non-array type {ty}"
            )));
        }
        let Some(elements) = slot.elements() else { return Ok(Change::None) };
        let before = elements.len();
        for value in &self.values {
            let known = elements.iter_mut().any(|element| run.collation.equal(element.value(), value.as_ref()));
            if !known {
                elements.push(Slot::Raw(value.as_ref()));
            }
        }
        Ok(if elements.len() == before { Change::None } else { Change::Changed })
    }

    pub(super) fn create(&self) -> Slot<'_> {
        Slot::Array(self.values.iter().map(|value| Slot::Raw(value.as_ref())).collect())
    }
}
