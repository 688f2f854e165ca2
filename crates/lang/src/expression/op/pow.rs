//! `$pow`: a number raised to an exponent; whole where the result is whole and fits.
//!
//! ```text
//! { $pow: [2, 10] } => 1024
//! { $pow: [2, 40] } => Long(1099511627776)
//! { $pow: [2, -1] } => 0.5
//! { $pow: [2, 0.5] } => 1.4142135623730951
//! { $pow: [10, 30] } => 1e30
//! { $pow: ["$a", 2] } => null
//! { $pow: [0, -1] } => error 28764: $pow cannot take a base of 0 and a negative exponent
//! { $pow: ["x", 1] } => error 28762: $pow's base must be numeric, not string
//! { $pow: [1, "x"] } => error 28763: $pow's exponent must be numeric, not string
//! ```

use arbor_bson::Number;
use dashu_float::FpError;

use crate::expression::Evaluated;
use crate::expression::real::{Math, Real, RealResult, of_two};
use crate::{Error, Result};

pub(super) fn eval<'a>(base: Evaluated<'a>, exponent: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Evaluated::null());
    }
    let not_a_number = |what: &str, code, found: &Evaluated| {
        Error::location(code, format!("$pow's {what} must be numeric, not {}", found.type_name()))
    };
    let a = base.get().and_then(Number::of).ok_or_else(|| not_a_number("base", 28762, &base))?;
    let b = exponent.get().and_then(Number::of).ok_or_else(|| not_a_number("exponent", 28763, &exponent))?;
    if a.is_zero() && b.to_f64() < 0.0 {
        return Err(Error::location(28764, "$pow cannot take a base of 0 and a negative exponent"));
    }
    Ok(power(a, b).to_value().into())
}

fn power(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(of_two((a.to_decimal(), b.to_decimal()), f64::powf, decimal_power))
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => Number::Double(a.to_f64().powf(b.to_f64())),
        _ => whole_power(a, b).unwrap_or_else(|| Number::Double(a.to_f64().powf(b.to_f64()))),
    }
}

fn whole_power(a: Number, b: Number) -> Option<Number> {
    let (base, exponent) = (a.to_i64_exact()?, b.to_i64_exact()?);
    let result = match base {
        // whole for every exponent, negative ones too
        1 => 1,
        -1 => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        _ => base.checked_pow(u32::try_from(exponent).ok()?)?,
    };
    Some(match (a, b, i32::try_from(result)) {
        (Number::Int32(_), Number::Int32(_), Ok(small)) => Number::Int32(small),
        _ => Number::Int64(result),
    })
}

/// Computes a power of decimals. Fails on overflow and for powers of zero, which the caller computes with doubles.
fn decimal_power(math: &Math, base: &Real, exponent: &Real) -> RealResult {
    let powers_of_ten = base.to_f64().value().abs().log10() * exponent.to_f64().value();
    if powers_of_ten.abs() < 6145.0 { math.powf(base, exponent, None) } else { Err(FpError::Indeterminate) }
}
