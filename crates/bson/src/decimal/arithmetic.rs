//! `+ - * /` and remainder, rounded half to even as IEEE 754-2008 says.
//!
//! Own code: the one pure Rust library at hand (decmathlib-rs 0.4) is a translation of 44,000 lines of C with unsafe
//! blocks; what is needed here is the five operations, and they fit the integers Rust has: a sum or product has at most
//! 70 digits and is kept as two halves of base 10^34, and a quotient is made digit by digit.

use std::{
    cmp::Ordering,
    ops::{Add, Div, Mul, Neg, Rem, Sub},
};

use super::{COEFFICIENT_MAX, DIGITS_MAX, EXPONENT_MAX, EXPONENT_MIN, Finite, Parts};
use crate::Decimal128;

const BASE: u128 = COEFFICIENT_MAX + 1;
const HALF: u128 = 10u128.pow(17);

/// `high * 10^34 + low`, low below 10^34; `sticky` says that something smaller than one unit follows.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Long {
    high: u128,
    low: u128,
    sticky: bool,
}

impl Neg for Decimal128 {
    type Output = Decimal128;

    fn neg(self) -> Decimal128 {
        Decimal128::from_bits(self.to_bits() ^ 1 << 127)
    }
}

impl Add for Decimal128 {
    type Output = Decimal128;

    fn add(self, other: Decimal128) -> Decimal128 {
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) | (_, Parts::Nan) => Decimal128::NAN,
            (Parts::Infinity { negative: a }, Parts::Infinity { negative: b }) if a != b => Decimal128::NAN,
            (Parts::Infinity { .. }, _) => self,
            (_, Parts::Infinity { .. }) => other,
            (Parts::Finite(a), Parts::Finite(b)) => add_finite(a, b),
        }
    }
}

impl Sub for Decimal128 {
    type Output = Decimal128;

    fn sub(self, other: Decimal128) -> Decimal128 {
        self + -other
    }
}

impl Mul for Decimal128 {
    type Output = Decimal128;

    fn mul(self, other: Decimal128) -> Decimal128 {
        let negative = self.is_negative() != other.is_negative();
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) | (_, Parts::Nan) => Decimal128::NAN,
            (Parts::Finite(a), Parts::Finite(b)) => {
                round(negative, product(a.coefficient, b.coefficient), a.exponent + b.exponent)
            }
            _ if self.is_zero() || other.is_zero() => Decimal128::NAN,
            _ => infinity(negative),
        }
    }
}

/// A finite number over zero is infinity, zero over zero NaN.
impl Div for Decimal128 {
    type Output = Decimal128;

    fn div(self, other: Decimal128) -> Decimal128 {
        let negative = self.is_negative() != other.is_negative();
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) | (_, Parts::Nan) | (Parts::Infinity { .. }, Parts::Infinity { .. }) => Decimal128::NAN,
            (Parts::Infinity { .. }, _) => infinity(negative),
            (Parts::Finite(_), Parts::Infinity { .. }) => zero(negative, EXPONENT_MIN),
            (Parts::Finite(a), Parts::Finite(b)) => match (a.coefficient, b.coefficient) {
                (0, 0) => Decimal128::NAN,
                (_, 0) => infinity(negative),
                (0, _) => zero(negative, a.exponent - b.exponent),
                _ => divide_finite(negative, a, b),
            },
        }
    }
}

/// The remainder of a division with a quotient rounded towards zero; it has the sign of the first operand.
impl Rem for Decimal128 {
    type Output = Decimal128;

    fn rem(self, other: Decimal128) -> Decimal128 {
        match (self.parts(), other.parts()) {
            (Parts::Finite(a), Parts::Finite(b)) if b.coefficient != 0 => remainder_finite(a, b),
            (Parts::Finite(_), Parts::Infinity { .. }) => self,
            _ => Decimal128::NAN,
        }
    }
}

impl Decimal128 {
    pub fn abs(self) -> Decimal128 {
        Decimal128::from_bits(self.to_bits() & !(1 << 127))
    }

    pub fn is_negative(self) -> bool {
        self.to_bits() >> 127 == 1
    }
}

fn infinity(negative: bool) -> Decimal128 {
    if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY }
}

fn zero(negative: bool, exponent: i32) -> Decimal128 {
    Decimal128::from_finite(Finite { negative, coefficient: 0, exponent })
}

fn add_finite(a: Finite, b: Finite) -> Decimal128 {
    let (high, mut low) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
    if high.coefficient == 0 || low.coefficient == 0 {
        return add_zero(high, low);
    }
    // two digits below the last one a result can have, all that matters is that something is there
    let reach = high.normalized().0 - DIGITS_MAX as i32 - 1;
    if low.normalized().0 < reach {
        low = Finite { coefficient: 1, exponent: reach.min(high.exponent), ..low };
    }
    let exponent = low.exponent;
    let scaled = scale(high.coefficient, (high.exponent - exponent).unsigned_abs());
    let other = Long { high: 0, low: low.coefficient, sticky: false };
    if high.negative == low.negative {
        return round(high.negative, scaled.plus(other), exponent);
    }
    match scaled.compare(other) {
        Ordering::Equal => zero(false, exponent),
        Ordering::Greater => round(high.negative, scaled.minus(other), exponent),
        Ordering::Less => round(low.negative, other.minus(scaled), exponent),
    }
}

/// A sum with a zero: the other, brought as near to the smaller exponent as its digits allow.
fn add_zero(high: Finite, low: Finite) -> Decimal128 {
    let negative = match (high.coefficient, low.coefficient) {
        (0, 0) => high.negative && low.negative,
        (0, _) => low.negative,
        _ => high.negative,
    };
    if high.coefficient == 0 {
        return round(negative, Long { high: 0, low: low.coefficient, sticky: false }, low.exponent);
    }
    let digits = high.coefficient.ilog10() + 1;
    let shift = (high.exponent - low.exponent).unsigned_abs().min(DIGITS_MAX - digits);
    let coefficient = high.coefficient * 10u128.pow(shift);
    round(negative, Long { high: 0, low: coefficient, sticky: false }, high.exponent - shift as i32)
}

/// Requires `power` up to 70 minus the digits of the coefficient.
fn scale(coefficient: u128, power: u32) -> Long {
    let first = power.min(DIGITS_MAX);
    let once = product(coefficient, 10u128.pow(first));
    let rest = 10u128.pow((power - first).min(3));
    let low = once.low * rest;
    Long { high: once.high * rest + low / BASE, low: low % BASE, sticky: false }
}

/// Requires both up to 10^34.
fn product(a: u128, b: u128) -> Long {
    let (a1, a0, b1, b0) = (a / HALF, a % HALF, b / HALF, b % HALF);
    let middle = a1 * b0 + a0 * b1;
    let low = a0 * b0 + middle % HALF * HALF;
    Long { high: a1 * b1 + middle / HALF + low / BASE, low: low % BASE, sticky: false }
}

impl Long {
    fn compare(self, other: Long) -> Ordering {
        (self.high, self.low).cmp(&(other.high, other.low))
    }

    fn plus(self, other: Long) -> Long {
        let low = self.low + other.low;
        Long { high: self.high + other.high + low / BASE, low: low % BASE, sticky: false }
    }

    /// Requires a smaller `other`.
    fn minus(self, other: Long) -> Long {
        let borrow = u128::from(self.low < other.low);
        Long { high: self.high - other.high - borrow, low: self.low + borrow * BASE - other.low, sticky: false }
    }

    fn digits(self) -> u32 {
        match (self.high, self.low) {
            (0, 0) => 0,
            (0, low) => low.ilog10() + 1,
            (high, _) => high.ilog10() + 1 + DIGITS_MAX,
        }
    }

    /// Drops as many digits, half to even.
    fn drop_digits(self, drop: u32) -> u128 {
        if drop > self.digits() {
            return 0;
        }
        let (kept, rest, unit, below) = if drop >= DIGITS_MAX {
            let unit = 10u128.pow(drop - DIGITS_MAX);
            (self.high / unit, self.high % unit * 2, unit, self.low != 0)
        } else {
            let unit = 10u128.pow(drop);
            (self.high * 10u128.pow(DIGITS_MAX - drop) + self.low / unit, self.low % unit * 2, unit, false)
        };
        let below = below || self.sticky;
        // with drop = 34 exactly the half is in the low part
        let order = if drop == DIGITS_MAX {
            (self.low * 2).cmp(&BASE).then(self.sticky.cmp(&false))
        } else {
            rest.cmp(&unit).then(below.cmp(&false))
        };
        kept + u128::from(order.is_gt() || (order.is_eq() && drop > 0 && kept % 2 == 1))
    }
}

/// Brings `value * 10^exponent` into the format.
fn round(negative: bool, value: Long, exponent: i32) -> Decimal128 {
    let digits = value.digits();
    let too_long = digits.saturating_sub(DIGITS_MAX);
    let too_small = (EXPONENT_MIN - exponent).max(0).unsigned_abs();
    let drop = too_long.max(too_small);
    let mut coefficient = if drop == 0 { value.low } else { value.drop_digits(drop) };
    let mut exponent = exponent + drop as i32;
    if coefficient == BASE {
        coefficient /= 10;
        exponent += 1;
    }
    if exponent > EXPONENT_MAX && coefficient != 0 {
        let shift = (exponent - EXPONENT_MAX).unsigned_abs();
        if coefficient.ilog10() + 1 + shift > DIGITS_MAX {
            return infinity(negative);
        }
        coefficient *= 10u128.pow(shift);
        exponent = EXPONENT_MAX;
    }
    Decimal128::from_finite(Finite { negative, coefficient, exponent })
}

/// Rounds digits of any number: the text form's way in.
pub(super) fn round_digits(negative: bool, coefficient: u128, sticky: bool, exponent: i32) -> Decimal128 {
    round(negative, Long { high: coefficient / BASE, low: coefficient % BASE, sticky }, exponent)
}

fn divide_finite(negative: bool, a: Finite, b: Finite) -> Decimal128 {
    let ideal = a.exponent - b.exponent;
    let mut exponent = ideal;
    let mut quotient = a.coefficient / b.coefficient;
    let mut rest = a.coefficient % b.coefficient;
    // one digit more than fits, so that the rest only has to say whether it is there
    while rest != 0 && quotient < BASE {
        rest *= 10;
        quotient = quotient * 10 + rest / b.coefficient;
        rest %= b.coefficient;
        exponent -= 1;
    }
    round_digits(negative, quotient, rest != 0, exponent)
}

fn remainder_finite(a: Finite, b: Finite) -> Decimal128 {
    let exponent = a.exponent.min(b.exponent);
    let coefficient = if a.exponent >= b.exponent {
        (b.exponent..a.exponent).fold(a.coefficient % b.coefficient, |rest, _| rest * 10 % b.coefficient)
    } else {
        // b is larger than a as soon as its scaled coefficient leaves 128 bits
        let power = 10u128.checked_pow((b.exponent - a.exponent).unsigned_abs());
        match power.and_then(|power| b.coefficient.checked_mul(power)) {
            Some(scaled) => a.coefficient % scaled,
            None => a.coefficient,
        }
    };
    Decimal128::from_finite(Finite { negative: a.negative, coefficient, exponent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operation: fn(Decimal128, Decimal128) -> Decimal128, a: &str, b: &str, expect: &str) {
        let (a, b): (Decimal128, Decimal128) = (a.parse().unwrap(), b.parse().unwrap());
        assert_eq!(operation(a, b).to_string(), expect, "{a} and {b}");
    }

    const NINES: &str = "9999999999999999999999999999999999";

    #[test]
    fn sums() {
        let check = |a, b, expect| {
            check(Decimal128::add, a, b, expect);
            check(Decimal128::add, b, a, expect);
        };
        check("1", "2", "3");
        check("1.10", "2", "3.10");
        check("0.1", "0.2", "0.3");
        check("1E10", "1", "10000000001");
        check("-5", "5", "0");
        check("1E100", "1", "1.000000000000000000000000000000000E+100");
        check("1E33", "-1E-10", "1000000000000000000000000000000000");
        check("1E34", "-1", NINES);
        check("1E34", "-4", "9999999999999999999999999999999996");
        check(NINES, "1", "1.000000000000000000000000000000000E+34");
        check(NINES, "0.5", "1.000000000000000000000000000000000E+34");
        check(NINES, "0.4", NINES);
        check("1234567890123456789012345678901234", "0.5", "1234567890123456789012345678901234");
        check("1234567890123456789012345678901234", "0.50000000001", "1234567890123456789012345678901235");
        check("1000000000000000000000000000000000", "-0.06", "999999999999999999999999999999999.9");
        check("9.999999999999999999999999999999999E+6144", "1E+6144", "Infinity");
        check("Infinity", "1", "Infinity");
        check("Infinity", "-Infinity", "NaN");
        check("NaN", "1", "NaN");
        check("0", "1E3", "1000");
        check("0E-2", "1E3", "1000.00");
        check("-0", "-0", "-0");
        check("1E-6176", "1E-6176", "2E-6176");
        check("1E+6111", "1E-6176", "1.000000000000000000000000000000000E+6111");
    }

    #[test]
    fn differences_products_quotients_remainders() {
        check(Decimal128::sub, "1", "0.9", "0.1");
        check(Decimal128::mul, "1.5", "2", "3.0");
        check(Decimal128::mul, "-0.1", "0.1", "-0.01");
        check(Decimal128::mul, NINES, NINES, "9.999999999999999999999999999999998E+67");
        check(Decimal128::mul, "1E6000", "1E6000", "Infinity");
        check(Decimal128::mul, "1E-6000", "1E-6000", "0E-6176");
        check(Decimal128::mul, "Infinity", "0", "NaN");
        check(Decimal128::mul, "15", "1E-6177", "0E-6176");
        check(Decimal128::div, "1", "3", "0.3333333333333333333333333333333333");
        check(Decimal128::div, "2", "3", "0.6666666666666666666666666666666667");
        check(Decimal128::div, "10", "2", "5");
        check(Decimal128::div, "1", "8", "0.125");
        check(Decimal128::div, "1", "0", "Infinity");
        check(Decimal128::div, "-1", "0", "-Infinity");
        check(Decimal128::div, "0", "0", "NaN");
        check(Decimal128::div, "1", NINES, "1.000000000000000000000000000000000E-34");
        check(Decimal128::rem, "10", "3", "1");
        check(Decimal128::rem, "-10", "3", "-1");
        check(Decimal128::rem, "5.5", "2", "1.5");
        check(Decimal128::rem, "1E100", "7", "4");
        check(Decimal128::rem, "5", "1E50", "5");
        check(Decimal128::rem, "5", "0", "NaN");
    }
}
