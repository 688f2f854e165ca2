//! `$inc: { field: number }`
//!
//! The sum has the wider type of the two; an int32 that overflows becomes an int64, an int64 that overflows is refused.
//!
//! `{ a: 1 }`, `{ $inc: { a: 2, b: 5 } }` -> `{ a: 3, b: 5 }`

use arbor_bson::{Number, ValueRef, compare};

use super::{Change, Run, Slot, replace_value};
use crate::{Error, Result, text};

#[derive(Clone, Debug)]
pub(in crate::update) struct Inc(Number);

impl Inc {
    pub(super) fn parse(field: &str, operand: ValueRef) -> Result<Inc> {
        let number = operand.as_number().ok_or_else(|| {
            let operand = text::field(field, operand);
            Error::type_mismatch(format!("Cannot increment with non-numeric argument: {{{operand}}}"))
        })?;
        Ok(Inc(number))
    }

    pub(super) fn modify(&self, slot: &mut Slot<'_>, run: &Run<'_>) -> Result<Change> {
        let old = current("$inc", slot, run)?;
        let sum = old.checked_add(self.0).ok_or_else(|| overflow("$inc", old, run))?;
        Ok(replace_number(slot, old, sum))
    }

    pub(super) fn create<'a>(&self) -> Slot<'a> {
        Slot::Owned(self.0.to_value())
    }
}

/// Puts a number in the place of another one. COMPAT: equal numbers of one type are the same, so a zero keeps its sign.
pub(super) fn replace_number(slot: &mut Slot<'_>, old: Number, new: Number) -> Change {
    let same = old.as_value().ty() == new.as_value().ty() && compare(old.as_value(), new.as_value()).is_eq();
    if same && old.is_zero() { Change::None } else { replace_value(slot, new.to_value()) }
}

/// The number that is there.
pub(super) fn current(operator: &str, slot: &mut Slot<'_>, run: &Run<'_>) -> Result<Number> {
    let value = slot.value();
    value.as_number().ok_or_else(|| {
        let field = run.path.last().map(|name| &**name).unwrap_or_default();
        Error::type_mismatch(format!(
            "Cannot apply {operator} to a value of non-numeric type. {{{}}} has the field '{field}' of non-numeric \
             type {}",
            run.id_text(),
            text::type_alias(value.ty()),
        ))
    })
}

pub(super) fn overflow(operator: &str, old: Number, run: &Run<'_>) -> Error {
    let kind = if matches!(old, Number::Int32(_)) { "NumberInt" } else { "NumberLong" };
    Error::bad_value(format!(
        "Failed to apply {operator} operations to current value (({kind}){}) for document {{{}}}",
        text::shell(old.as_value()),
        run.id_text(),
    ))
}
