//! `$add`: the sum of numbers; one of them may be a date, to which the others add milliseconds.
//!
//! ```text
//! { $add: [1, 2] } => 3
//! { $add: [1, 2.5] } => 3.5
//! { $add: [2147483647, 1] } => Long(2147483648)
//! { $add: [Long(9223372036854775807), 1] } => 9223372036854775808.0
//! { $add: [Decimal("1.1"), 1] } => Decimal("2.1")
//! { $add: [Date(1000), 5, 5.6] } => Date(1011)
//! { $add: [1, "$a"] } => null
//! { $add: [] } => 0
//! { $add: [1, "x"] } => error 14: $add only supports numeric or date types, not string
//! { $add: [Date(1), Date(2)] } => error 16612: only one date allowed in an $add expression
//! ```

use arbor_bson::{Number, Value, ValueRef};

use crate::expression::Evaluated;
use crate::{Code, Error, Result};

pub(super) fn eval(terms: Vec<Evaluated>) -> Result<Evaluated> {
    let mut sum = Number::Int32(0);
    let mut date = None;
    for term in &terms {
        match term.get() {
            _ if term.is_nullish() => return Ok(Evaluated::null()),
            Some(ValueRef::DateTime(_)) if date.is_some() => {
                return Err(Error::location(16612, "only one date allowed in an $add expression"));
            }
            Some(ValueRef::DateTime(millis)) => date = Some(millis),
            other => match other.and_then(Number::of) {
                Some(number) => sum = sum + number,
                None => {
                    let found = term.type_name();
                    let message = format!("$add only supports numeric or date types, not {found}");
                    return Err(Error::type_mismatch(message));
                }
            },
        }
    }
    Ok(match date {
        Some(millis) => Evaluated::Owned(Value::DateTime(shift(millis, sum)?)),
        None => sum.to_value().into(),
    })
}

/// A date some milliseconds later; fractions are rounded.
pub(super) fn shift(millis: i64, by: Number) -> Result<i64> {
    let by = match by {
        Number::Double(v) => Number::Double(v.round()).to_i64_truncated(),
        Number::Decimal(v) => v.to_i64_rounded(),
        whole => whole.to_i64_truncated(),
    };
    by.and_then(|by| millis.checked_add(by)).ok_or_else(|| Error::new(Code::OVERFLOW, "date overflow in $add"))
}
