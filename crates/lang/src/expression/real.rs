//! Functions of real numbers: of a double in doubles, of a decimal with 34 correct digits.
//!
//! The decimals' functions are those of `dashu-float`, which rounds them correctly at any precision. It knows no
//! infinities, no NaN and no limits of the exponent: what concerns those is taken from the function of doubles.

use arbor_bson::{Decimal128, Finite, Number, Parts};
use dashu_float::{Context, FBig, FpError, FpResult, Repr, round::mode::HalfEven};

/// Digits of a decimal128.
const DIGITS: usize = 34;
/// The exponents beyond which `e^x` is no decimal128 any more: 6145 * ln 10 = 14150.
const EXPONENTIAL_MAX: f64 = 15_000.0;
/// The angles up to which whole turns are taken off exactly, in powers of ten. PERF: 0.5 ms at 10^200, 2 s at 10^6000
/// (2026-11-21).
const ANGLE_POWER_MAX: isize = 200;

pub(super) type Math = Context<HalfEven>;
pub(super) type Real = Repr<10>;
pub(super) type RealResult = FpResult<FBig<HalfEven, 10>>;

/// One function in both kinds of numbers.
#[derive(Clone, Copy)]
pub(super) struct Function {
    pub double: fn(f64) -> f64,
    pub decimal: fn(&Math, &Real) -> RealResult,
}

impl Function {
    pub(super) fn of(self, value: Number) -> Number {
        let Number::Decimal(decimal) = value else { return Number::Double((self.double)(value.to_f64())) };
        let by_double = || of_double((self.double)(decimal.to_f64()));
        Number::Decimal(match real(decimal) {
            Some(real) => finish((self.decimal)(&math(), &real)).unwrap_or_else(|| out_of_range(by_double())),
            None => by_double(),
        })
    }
}

/// A function of two decimals.
pub(super) fn of_two(
    (a, b): (Decimal128, Decimal128),
    double: fn(f64, f64) -> f64,
    decimal: fn(&Math, &Real, &Real) -> RealResult,
) -> Decimal128 {
    let exact = real(a).zip(real(b)).and_then(|(a, b)| finish(decimal(&math(), &a, &b)));
    exact.unwrap_or_else(|| of_double(double(a.to_f64(), b.to_f64())))
}

/// A zero that is none, but too small for a decimal.
fn out_of_range(value: Decimal128) -> Decimal128 {
    if value.is_zero() {
        Decimal128::from_finite(Finite { negative: value.is_negative(), coefficient: 0, exponent: -6176 })
    } else {
        value
    }
}

/// A function that grows as `e^x`: what leaves the range of decimals is left to the doubles.
pub(super) fn exponential(value: &Real, result: impl FnOnce() -> RealResult) -> RealResult {
    if value.to_f64().value().abs() > EXPONENTIAL_MAX { Err(FpError::Indeterminate) } else { result() }
}

/// A function of an angle: COMPAT: beyond 10^200 the angle is the nearest double.
pub(super) fn periodic(value: &Real, result: impl FnOnce() -> RealResult) -> RealResult {
    if value.exponent() > ANGLE_POWER_MAX { Err(FpError::Indeterminate) } else { result() }
}

/// Degrees in radians, or the other way round.
pub(super) fn turned(value: &Real, to_radians: bool) -> RealResult {
    let wide = Math::new(2 * DIGITS);
    let (value, pi) = (FBig::from_repr(value.clone(), wide), wide.pi(None).value());
    let turned = if to_radians { value * pi / FBig::from(180) } else { value * FBig::from(180) / pi };
    Ok(turned.with_precision(DIGITS))
}

fn math() -> Math {
    Math::new(DIGITS)
}

/// `None` for infinity and NaN.
fn real(value: Decimal128) -> Option<Real> {
    let Parts::Finite(Finite { negative, coefficient, exponent }) = value.parts() else { return None };
    let magnitude = i128::try_from(coefficient).ok()?;
    Some(Real::new((if negative { -magnitude } else { magnitude }).into(), exponent as isize))
}

/// A result as a decimal: an exact one is written without an exponent where its digits allow, any other with all 34.
fn finish(result: RealResult) -> Option<Decimal128> {
    let (value, exact) = result.ok()?.value_with_exact();
    let value = value.repr();
    if value.is_infinite() {
        return None;
    }
    let (mut coefficient, mut exponent) = (i128::try_from(value.significand()).ok()?, value.exponent());
    let room = DIGITS as isize - coefficient.unsigned_abs().checked_ilog10().map_or(0, |power| power as isize + 1);
    let zeros = match exact {
        true if exponent > room => 0,
        true => exponent.max(0),
        false => room,
    };
    if coefficient != 0 {
        coefficient *= 10i128.pow(zeros.max(0) as u32);
        exponent -= zeros;
    }
    format!("{coefficient}E{exponent}").parse().ok()
}

/// Converts the result of a function of doubles at the edges: infinity, NaN, zero; underflow is zero.
fn of_double(value: f64) -> Decimal128 {
    value.to_string().parse().unwrap_or(Decimal128::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(function: Function, value: &str, expect: &str) {
        let Number::Decimal(result) = function.of(Number::Decimal(value.parse().unwrap())) else {
            panic!("no decimal")
        };
        assert_eq!(result.to_string(), expect, "of {value}");
    }

    #[test]
    fn exact_results_are_short_and_others_have_all_digits() {
        let sqrt = Function { double: f64::sqrt, decimal: |math, x| math.sqrt(x) };
        check(sqrt, "9.00", "3");
        check(sqrt, "100", "10");
        check(sqrt, "1E+6000", "1E+3000");
        check(sqrt, "2", "1.414213562373095048801688724209698");
        check(sqrt, "Infinity", "Infinity");
        let log10 = Function { double: f64::log10, decimal: |math, x| math.log10(x, None) };
        check(log10, "2", "0.3010299956639811952137388947244930");
        check(log10, "1E-6000", "-6000");
    }

    #[test]
    fn what_no_decimal_holds_is_as_with_doubles() {
        let exp = Function { double: f64::exp, decimal: |math, x| exponential(x, || math.exp(x, None)) };
        check(exp, "15001", "Infinity");
        check(exp, "-1E+6000", "0E-6176");
        check(exp, "-Infinity", "0");
        check(exp, "NaN", "NaN");
        let sin = Function { double: f64::sin, decimal: |math, x| periodic(x, || math.sin(x, None)) };
        check(sin, "1E+100", "-0.3723761236612766882620866955531643");
        check(sin, "1E+6000", "NaN");
    }
}
