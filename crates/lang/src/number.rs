//! Conversions of a value to numbers, for all BSON types.

use arbor_bson::{Number, ValueRef};

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

/// The integer part, when it fits.
pub fn truncate_to_i64(value: ValueRef) -> Option<i64> {
    Number::of(value)?.to_i64_truncated()
}
