//! Numbers of any BSON type.

use arbor_bson::{Decimal128, Finite, Parts, ValueRef};

/// A decimal as a 64-bit integer when that loses nothing.
pub fn decimal_to_i64_exact(value: Decimal128) -> Option<i64> {
    decimal_to_i64(value, true)
}

/// The integer part of a decimal, when it fits 64 bits; with `exact`, only if there is no fraction.
fn decimal_to_i64(value: Decimal128, exact: bool) -> Option<i64> {
    let Parts::Finite(Finite { negative, coefficient, exponent }) = value.parts() else { return None };
    let power = 10u128.checked_pow(exponent.unsigned_abs());
    let magnitude = match (exponent < 0, power) {
        _ if coefficient == 0 => 0,
        (false, Some(power)) => coefficient.checked_mul(power)?,
        (false, None) => return None,
        (true, Some(power)) if exact && coefficient % power != 0 => return None,
        (true, Some(power)) => coefficient / power,
        (true, None) if exact => return None,
        (true, None) => 0,
    };
    let magnitude = i128::try_from(magnitude).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
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
        ValueRef::Decimal128(v) => Some(decimal_to_f64(v)),
        _ => None,
    }
}

/// The double nearest to a decimal.
pub fn decimal_to_f64(value: Decimal128) -> f64 {
    match value.parts() {
        Parts::Nan => f64::NAN,
        Parts::Infinity { negative: true } => f64::NEG_INFINITY,
        Parts::Infinity { negative: false } => f64::INFINITY,
        Parts::Finite(Finite { negative, coefficient, exponent }) => {
            let sign = if negative { "-" } else { "" };
            format!("{sign}{coefficient}e{exponent}").parse().unwrap_or(f64::NAN)
        }
    }
}

/// The integer part, when it fits.
pub fn truncate_to_i64(value: ValueRef) -> Option<i64> {
    match value {
        ValueRef::Int32(v) => Some(i64::from(v)),
        ValueRef::Int64(v) => Some(v),
        ValueRef::Decimal128(v) => decimal_to_i64(v, false),
        _ => to_f64(value).filter(|v| v.abs() < 2f64.powi(63)).map(|v| v as i64),
    }
}

pub fn decimal_text(v: Decimal128) -> String {
    match v.parts() {
        Parts::Finite(Finite { negative, coefficient, exponent }) => {
            format!("{}{coefficient}E{exponent}", if negative { "-" } else { "" })
        }
        other => format!("{other:?}"),
    }
}
