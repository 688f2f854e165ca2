//! `$set: { field: value }`
//!
//! `{ a: 1 }`, `{ $set: { a: 2, "b.c": 3 } }` -> `{ a: 2, b: { c: 3 } }`

use arbor_bson::{Value, ValueRef};

#[derive(Clone, Debug)]
pub(in crate::update) struct Set(Value);

impl Set {
    pub(super) fn parse(operand: ValueRef) -> Set {
        Set(operand.to_value())
    }

    pub(in crate::update) fn value(&self) -> ValueRef<'_> {
        self.0.as_ref()
    }
}
