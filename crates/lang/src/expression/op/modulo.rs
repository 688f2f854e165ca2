//! `$mod`: the remainder of a division, with the sign of the dividend.
//!
//! ```text
//! { $mod: [7, 3] } => 1
//! { $mod: [-7, 3] } => -1
//! { $mod: [7.5, 2] } => 1.5
//! { $mod: [Long(7), 4] } => Long(3)
//! { $mod: [1, "$a"] } => null
//! { $mod: [1, 0] } => error 16610: can't $mod by zero
//! { $mod: ["x", 1] } => error 16611: $mod only supports numeric types, not string and int
//! ```

use arbor_bson::Number;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval<'a>(a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if a.is_nullish() || b.is_nullish() {
        return Ok(Evaluated::null());
    }
    let (Some(left), Some(right)) = (a.get().and_then(Number::of), b.get().and_then(Number::of)) else {
        let message = format!("$mod only supports numeric types, not {} and {}", a.type_name(), b.type_name());
        return Err(Error::location(16611, message));
    };
    if right.is_zero() {
        let of_decimals = matches!((left, right), (Number::Decimal(_), _) | (_, Number::Decimal(_)));
        return Err(Error::location(if of_decimals { 5733415 } else { 16610 }, "can't $mod by zero"));
    }
    let remainder = match (left, right) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => Number::Decimal(left.to_decimal() % right.to_decimal()),
        (Number::Double(_), _) | (_, Number::Double(_)) => Number::Double(left.to_f64() % right.to_f64()),
        (Number::Int32(left), Number::Int32(right)) => Number::Int32(left.wrapping_rem(right)),
        _ => {
            let whole = |number: Number| number.to_i64_exact().unwrap_or(1);
            Number::Int64(whole(left).wrapping_rem(whole(right)))
        }
    };
    Ok(remainder.to_value().into())
}
