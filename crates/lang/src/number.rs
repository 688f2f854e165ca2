//! Numbers of any BSON type.

use arbor_bson::{Decimal128, ValueRef};

/// A decimal as a 64-bit integer when that loses nothing.
pub fn decimal_to_i64_exact(value: Decimal128) -> Option<i64> {
    let text = value.to_string();
    text.parse().ok().or_else(|| {
        let double: f64 = text.parse().ok()?;
        let fits = double.fract() == 0.0 && double.abs() < 9e15;
        fits.then_some(double as i64)
    })
}

pub fn is_number(value: ValueRef) -> bool {
    matches!(value, ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::Decimal128(_))
}

pub fn is_nan(value: ValueRef) -> bool {
    match value {
        ValueRef::Double(v) => v.is_nan(),
        ValueRef::Decimal128(v) => v.is_nan(),
        _ => false,
    }
}

/// The nearest double.
pub fn to_f64(value: ValueRef) -> Option<f64> {
    match value {
        ValueRef::Int32(v) => Some(f64::from(v)),
        ValueRef::Int64(v) => Some(v as f64),
        ValueRef::Double(v) => Some(v),
        ValueRef::Decimal128(v) => v.to_string().parse().ok(),
        _ => None,
    }
}

/// The integer part, when it fits.
pub fn truncate_to_i64(value: ValueRef) -> Option<i64> {
    match value {
        ValueRef::Int32(v) => Some(i64::from(v)),
        ValueRef::Int64(v) => Some(v),
        _ => to_f64(value).filter(|v| v.abs() < 2f64.powi(63)).map(|v| v as i64),
    }
}
