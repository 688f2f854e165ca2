//! `$abs`: the magnitude of a number.
//!
//! ```text
//! { $abs: -5 } => 5
//! { $abs: -2147483648 } => Long(2147483648)
//! { $abs: -1.5 } => 1.5
//! { $abs: Decimal("-1.50") } => Decimal("1.50")
//! { $abs: "$a" } => null
//! { $abs: "x" } => error 28765: $abs only supports numeric types, not string
//! { $abs: Long(-9223372036854775808) } => error 28680: can't take $abs of long long min
//! ```

use arbor_bson::Number;

use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::{Error, Result};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$abs", value, |number| {
        Ok(match number {
            Number::Int32(v) => v.checked_abs().map_or(Number::Int64(i64::from(v).abs()), Number::Int32),
            Number::Int64(v) => Number::Int64(
                v.checked_abs().ok_or_else(|| Error::location(28680, "can't take $abs of long long min"))?,
            ),
            Number::Double(v) => Number::Double(v.abs()),
            Number::Decimal(v) => Number::Decimal(v.abs()),
        })
    })
}
