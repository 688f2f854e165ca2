//! `$subtract`: the difference of numbers; of two dates in milliseconds; or a date some milliseconds earlier.
//!
//! ```text
//! { $subtract: [5, 2] } => 3
//! { $subtract: [1, 0.5] } => 0.5
//! { $subtract: [Date(1000), Date(400)] } => Long(600)
//! { $subtract: [Date(1000), 400] } => Date(600)
//! { $subtract: [1, "$a"] } => null
//! { $subtract: ["x", 1] } => error 14: can't $subtract int from string
//! { $subtract: [1, Date(1)] } => error 14: can't $subtract date from int
//! ```

use arbor_bson::{Number, Value, ValueRef};

use super::add::shift;
use crate::expression::Evaluated;
use crate::{Code, Error, Result};

pub(super) fn eval<'a>(a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if a.is_nullish() || b.is_nullish() {
        return Ok(Evaluated::null());
    }
    let (left, right) = (a.or_null(), b.or_null());
    if let ValueRef::DateTime(left) = left {
        if let ValueRef::DateTime(right) = right {
            let difference = left.checked_sub(right);
            return difference
                .map(Evaluated::from)
                .ok_or_else(|| Error::new(Code::OVERFLOW, "date overflow in $subtract"));
        }
        if let Some(number) = Number::of(right) {
            return Ok(Evaluated::Owned(Value::DateTime(shift(left, Number::Int32(0) - number)?)));
        }
    }
    match (Number::of(left), Number::of(right)) {
        (Some(left), Some(right)) => Ok((left - right).to_value().into()),
        _ => {
            let message = format!("can't $subtract {} from {}", b.type_name(), a.type_name());
            Err(Error::type_mismatch(message))
        }
    }
}
