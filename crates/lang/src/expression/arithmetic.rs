//! Shared code of the arithmetic operators.

use arbor_bson::{Decimal128, Finite, Number, Parts};

use super::Evaluated;
use super::real::Function;
use crate::{Error, Result};

/// Applies a function to a number; null for null.
pub(super) fn numeric<'a>(
    operator: &str,
    value: Evaluated<'a>,
    function: impl FnOnce(Number) -> Result<Number>,
) -> Result<Evaluated<'a>> {
    if value.is_nullish() {
        return Ok(Evaluated::null());
    }
    let Some(number) = value.get().and_then(Number::of) else {
        let message = format!("{operator} only supports numeric types, not {}", value.type_name());
        return Err(Error::location(28765, message));
    };
    Ok(function(number)?.to_value().into())
}

/// A function that is defined on an interval only.
pub(super) fn within<'a>(
    operator: &str,
    value: Evaluated<'a>,
    domain: (&str, fn(f64) -> bool),
    function: Function,
) -> Result<Evaluated<'a>> {
    numeric(operator, value, |number| {
        let double = number.to_f64();
        if double.is_nan() || domain.1(double) {
            return Ok(function.of(number));
        }
        let shown = number.as_value().to_string();
        let shown = shown.strip_suffix(".0").filter(|_| double.is_infinite()).unwrap_or(&shown);
        let message = format!("cannot apply {operator} to {shown}, value must be in {}", domain.0);
        Err(Error::location(50989, message))
    })
}

/// Returns true if a logarithm is refused: a decimal may be positive and yet no double but zero.
pub(super) fn is_zero_or_less(number: Number) -> bool {
    match number {
        Number::Decimal(v) => v.is_zero() || (v.is_negative() && !v.is_nan()),
        other => other.to_f64() <= 0.0,
    }
}

/// Treatment of the digits that are cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    HalfEven,
    TowardsZero,
    Down,
    Up,
}

/// Rounds to `place` digits after the point (before it when negative).
pub(super) fn round(number: Number, place: i32, rounding: Rounding) -> Number {
    match number {
        Number::Int32(v) => {
            let rounded = round_integer(i64::from(v), place, rounding);
            i32::try_from(rounded).map_or(Number::Int64(rounded), Number::Int32)
        }
        Number::Int64(v) => Number::Int64(round_integer(v, place, rounding)),
        Number::Double(v) if !v.is_finite() => number,
        Number::Double(v) if place == 0 => Number::Double(match rounding {
            Rounding::HalfEven => v.round_ties_even(),
            Rounding::TowardsZero => v.trunc(),
            Rounding::Down => v.floor(),
            Rounding::Up => v.ceil(),
        }),
        Number::Double(v) => {
            // of all digits that the double has, not of those that it is written with
            Number::Double(round_decimal(Decimal128::from_f64_wide(v), place, rounding).to_f64())
        }
        Number::Decimal(v) => Number::Decimal(round_decimal(v, place, rounding)),
    }
}

fn round_integer(v: i64, place: i32, rounding: Rounding) -> i64 {
    if place >= 0 {
        return v;
    }
    let Some(unit) = 10i128.checked_pow(place.unsigned_abs()) else { return 0 };
    let (quotient, remainder) = (i128::from(v) / unit, i128::from(v) % unit);
    let quotient = quotient + i128::from(adjustment(quotient % 2 != 0, 2 * remainder.abs(), unit, v < 0, rounding));
    i64::try_from(quotient * unit).unwrap_or(v)
}

fn round_decimal(v: Decimal128, place: i32, rounding: Rounding) -> Decimal128 {
    let Parts::Finite(Finite { negative, coefficient, exponent }) = v.parts() else { return v };
    let dropped = -place - exponent;
    if dropped <= 0 {
        // digits that are missing are zeros, as far as there is room for them
        let padded = 10u128.checked_pow(dropped.unsigned_abs()).and_then(|unit| coefficient.checked_mul(unit));
        return match padded.filter(|padded| *padded < 10u128.pow(34)) {
            Some(coefficient) => Decimal128::from_finite(Finite { negative, coefficient, exponent: -place }),
            None => v,
        };
    }
    // a coefficient has at most 34 digits, so 36 dropped digits leave nothing and less than half
    let unit = 10i128.pow(dropped.min(36) as u32);
    let coefficient = coefficient as i128;
    let (quotient, remainder) = (coefficient / unit, coefficient % unit);
    let step = adjustment(quotient % 2 != 0, 2 * remainder, unit, negative, rounding);
    let magnitude = quotient + i128::from(if negative { -step } else { step });
    Decimal128::from_finite(Finite { negative, coefficient: magnitude as u128, exponent: -place })
}

/// Returns the correction of the signed quotient for its cut-off digits. `twice` is twice the magnitude of what was cut off.
fn adjustment(odd: bool, twice: i128, unit: i128, negative: bool, rounding: Rounding) -> i8 {
    let away = if negative { -1 } else { 1 };
    match rounding {
        Rounding::TowardsZero => 0,
        Rounding::HalfEven if twice > unit || (twice == unit && odd) => away,
        Rounding::Up if twice > 0 && !negative => 1,
        Rounding::Down if twice > 0 && negative => -1,
        _ => 0,
    }
}

/// Reads the two arguments of `$round` and `$trunc`.
pub(super) fn round_to_place<'a>(
    operator: &str,
    arguments: Vec<Evaluated<'a>>,
    rounding: Rounding,
) -> Result<Evaluated<'a>> {
    let mut arguments = arguments.into_iter();
    let value = arguments.next().unwrap_or(Evaluated::Missing);
    let place = match arguments.next() {
        None => 0,
        Some(place) if place.is_nullish() => return Ok(Evaluated::null()),
        Some(place) => {
            if !place.get().is_some_and(crate::number::is_number) {
                let found = place.type_name();
                return Err(Error::location(16004, format!("can't convert from BSON type {found} to long")));
            }
            let exact = place.get().and_then(crate::number::exact_i64);
            let whole = exact.ok_or_else(|| {
                Error::location(51082, format!("precision argument to  {operator} must be a integral value"))
            })?;
            if !(-20..=100).contains(&whole) {
                let message =
                    format!("cannot apply {operator} with precision value {whole} value must be in [-20, 100]");
                return Err(Error::location(51083, message));
            }
            whole as i32
        }
    };
    if !value.is_nullish() && !value.get().is_some_and(crate::number::is_number) {
        let message = format!("{operator} only supports numeric types, not {}", value.type_name());
        return Err(Error::location(51081, message));
    }
    numeric(operator, value, |number| Ok(round(number, place, rounding)))
}
