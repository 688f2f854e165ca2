//! `$mul: { field: number }`: types as with `$inc`; a field that is not there becomes a zero of the operand's type.
//!
//! `{ a: 3 }`, `{ $mul: { a: 2.5, b: 7 } }` -> `{ a: 7.5, b: 0 }`

use arbor_bson::{Number, ValueRef};

use super::{Change, Run, Slot, inc};
use crate::{Error, Result, text};

#[derive(Clone, Debug)]
pub(in crate::update) struct Mul(Number);

impl Mul {
    pub(super) fn parse(field: &str, operand: ValueRef) -> Result<Mul> {
        let number = operand.as_number().ok_or_else(|| {
            let operand = text::field(field, operand);
            Error::type_mismatch(format!("Cannot multiply with non-numeric argument: {{{operand}}}"))
        })?;
        Ok(Mul(number))
    }

    pub(super) fn modify(&self, slot: &mut Slot<'_>, run: &Run<'_>) -> Result<Change> {
        let old = inc::current("$mul", slot, run)?;
        let product = old.checked_multiply(self.0).ok_or_else(|| inc::overflow("$mul", old, run))?;
        Ok(inc::replace_number(slot, old, product))
    }

    pub(super) fn create<'a>(&self) -> Slot<'a> {
        Slot::Owned((Number::Int32(0) * self.0).to_value())
    }
}
