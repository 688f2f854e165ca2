//! `$sqrt`: the square root.
//!
//! ```text
//! { $sqrt: 9 } => 3.0
//! { $sqrt: "$a" } => null
//! { $sqrt: -1 } => error 28714: $sqrt's argument must be greater than or equal to 0
//! { $sqrt: "x" } => error 28765: $sqrt only supports numeric types, not string
//! ```

use arbor_bson::{Decimal128, Finite, Number, Parts};

use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::Function;
use crate::{Error, Result};

const FUNCTION: Function = Function { double: f64::sqrt, decimal: |math, x| math.sqrt(x) };

/// Writes an exact root with half the exponent of the number, as far as its digits allow.
fn at_half_exponent(value: Decimal128, root: Number) -> Number {
    let (Parts::Finite(value), Number::Decimal(exact)) = (value.parts(), root) else { return root };
    let Parts::Finite(Finite { negative, coefficient, exponent }) = exact.parts() else { return root };
    let padding = exponent - value.exponent.div_euclid(2);
    if let Some(unit) = u32::try_from(-padding).ok().and_then(|zeros| 10u128.checked_pow(zeros))
        && coefficient % unit == 0
    {
        let whole = Finite { negative, coefficient: coefficient / unit, exponent: exponent - padding };
        return Number::Decimal(Decimal128::from_finite(whole));
    }
    let unit = u32::try_from(padding).ok().and_then(|padding| 10u128.checked_pow(padding));
    match unit.and_then(|unit| coefficient.checked_mul(unit)).filter(|padded| *padded < 10u128.pow(34)) {
        Some(coefficient) => {
            Number::Decimal(Decimal128::from_finite(Finite { negative, coefficient, exponent: exponent - padding }))
        }
        None => root,
    }
}

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$sqrt", value, |number| {
        if number.to_f64() < 0.0 {
            return Err(Error::location(28714, "$sqrt's argument must be greater than or equal to 0"));
        }
        Ok(match number {
            Number::Decimal(zero) if zero.is_zero() && zero.is_negative() => number,
            Number::Decimal(value) => at_half_exponent(value, FUNCTION.of(number)),
            _ => FUNCTION.of(number),
        })
    })
}
