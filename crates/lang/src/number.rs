//! Conversions of a value to numbers, for all BSON types.

use arbor_bson::{Number, ValueRef};

use crate::{Error, Result};

pub fn is_number(value: ValueRef) -> bool {
    Number::of(value).is_some()
}

pub fn is_nan(value: ValueRef) -> bool {
    Number::of(value).is_some_and(Number::is_nan)
}

/// The nearest double.
pub fn to_f64(value: ValueRef) -> Option<f64> {
    Number::of(value).map(Number::to_f64)
}

/// The value as a 64-bit integer when that loses nothing.
pub fn exact_i64(value: ValueRef) -> Option<i64> {
    Number::of(value)?.to_i64_exact()
}

/// The value as a 32-bit integer when that loses nothing.
pub fn exact_i32(value: ValueRef) -> Option<i32> {
    exact_i64(value)?.try_into().ok()
}

/// Converts to a 64-bit integer as the arguments of some operators are: a double is cut, a decimal rounded half to even, and
/// the least integer replaces a decimal that does not fit. `None` for what is no number. Errors: a double that does not fit.
pub fn coerce_to_i64(value: ValueRef) -> Result<Option<i64>> {
    Ok(match Number::of(value) {
        None => None,
        Some(Number::Decimal(decimal)) => Some(decimal.to_i64_rounded().unwrap_or(i64::MIN)),
        Some(number) => {
            let out_of_range = || Error::location(31109, format!("Can't coerce out of range value {value} to long"));
            Some(number.to_i64_truncated().ok_or_else(out_of_range)?)
        }
    })
}

/// Converts to a 64-bit integer, the nearest one where the number does not fit: a double is cut, a decimal rounded half to
/// even, NaN is zero.
pub fn saturate_to_i64(value: ValueRef) -> Option<i64> {
    let number = Number::of(value)?;
    let whole = match number {
        Number::Decimal(decimal) => decimal.to_i64_rounded(),
        other => other.to_i64_truncated(),
    };
    Some(whole.unwrap_or(number.to_f64() as i64))
}

/// The integer part, when it fits.
pub fn truncate_to_i64(value: ValueRef) -> Option<i64> {
    Number::of(value)?.to_i64_truncated()
}
