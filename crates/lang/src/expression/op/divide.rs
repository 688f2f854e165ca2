//! `$divide`: the quotient of two numbers, a double or a decimal.
//!
//! ```text
//! { $divide: [10, 4] } => 2.5
//! { $divide: [10, 5] } => 2.0
//! { $divide: [Decimal("1"), 4] } => Decimal("0.25")
//! { $divide: [1, "$a"] } => null
//! { $divide: [1, 0] } => error 2: can't $divide by zero
//! { $divide: ["x", 1] } => error 14: $divide only supports numeric types, not string and int
//! ```

use arbor_bson::Number;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval<'a>(a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if a.is_nullish() || b.is_nullish() {
        return Ok(Evaluated::null());
    }
    match (a.get().and_then(Number::of), b.get().and_then(Number::of)) {
        (Some(_), Some(b)) if b.is_zero() => Err(Error::bad_value("can't $divide by zero")),
        (Some(a @ Number::Decimal(_)), Some(b)) | (Some(a), Some(b @ Number::Decimal(_))) => {
            Ok((a.to_decimal() / b.to_decimal()).into())
        }
        (Some(a), Some(b)) => Ok((a.to_f64() / b.to_f64()).into()),
        _ => {
            let message = format!("$divide only supports numeric types, not {} and {}", a.type_name(), b.type_name());
            Err(Error::type_mismatch(message))
        }
    }
}
