//! `$addToSet: { field: value }` or `{ field: { $each: [..] } }`: adds what no element is equal to.
//!
//! `{ a: [1, 2] }`, `{ $addToSet: { a: { $each: [2, 3, 3] } } }` -> `{ a: [1, 2, 3] }`

use arbor_bson::{Value, ValueRef};

use super::{Change, Run, Slot};
use crate::{Collation, Error, Result, collation::ValueSet, stop::tick, text};

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
            let mut seen = ValueSet::new(collation);
            for value in array.iter() {
                tick()?;
                if seen.insert(value) {
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
        for value in self.not_among(elements, run.collation)? {
            elements.push(Slot::Raw(value));
        }
        Ok(if elements.len() == before { Change::None } else { Change::Changed })
    }

    fn not_among(&self, elements: &mut [Slot], collation: &Collation) -> Result<Vec<ValueRef<'_>>> {
        if let [value] = self.values.as_slice() {
            let known = elements.iter_mut().any(|element| collation.equal(element.value(), value.as_ref()));
            return Ok(if known { Vec::new() } else { vec![value.as_ref()] });
        }
        let mut seen = ValueSet::new(collation);
        for element in elements {
            tick()?;
            seen.insert(element.value());
        }
        Ok(self.values.iter().map(Value::as_ref).filter(|value| !seen.contains(*value)).collect())
    }

    pub(super) fn create(&self) -> Slot<'_> {
        Slot::Array(self.values.iter().map(|value| Slot::Raw(value.as_ref())).collect())
    }
}
