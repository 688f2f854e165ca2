//! decimal128 taken apart: sign, coefficient, exponent; exact comparison with other decimals, integers and doubles.
//!
//! | bits | what |
//! |---|---|
//! | 127 | sign |
//! | 126..113 | exponent + 6176 (unless bits 126..125 are 11) |
//! | 112..0 | coefficient, below 10^34 |
//!
//! Bits 126..122 = 11110 is infinity, 11111 is NaN. Other values with bits 126..125 = 11, and coefficients of 10^34 and
//! more, are not canonical: their coefficient is zero (IEEE 754-2008, 3.5.2).

mod arithmetic;
mod convert;
mod text;

use std::cmp::Ordering;

use crate::{Decimal128, wide::Wide};

pub(crate) const EXPONENT_MIN: i32 = -6176;
pub(crate) const EXPONENT_MAX: i32 = 6111;
pub(crate) const DIGITS_MAX: u32 = 34;
/// The largest coefficient, 10^34 - 1.
pub(crate) const COEFFICIENT_MAX: u128 = 10u128.pow(DIGITS_MAX) - 1;

/// A decimal, decoded from its 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    Nan,
    Infinity { negative: bool },
    Finite(Finite),
}

/// `(-1)^negative * coefficient * 10^exponent`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finite {
    pub negative: bool,
    pub coefficient: u128,
    pub exponent: i32,
}

impl Decimal128 {
    pub const ZERO: Decimal128 = Decimal128::from_bits(0x3040 << 112);
    pub const NAN: Decimal128 = Decimal128::from_bits(0x7C << 120);
    pub const NEG_NAN: Decimal128 = Decimal128::from_bits(0xFC << 120);
    pub const INFINITY: Decimal128 = Decimal128::from_bits(0x78 << 120);
    pub const NEG_INFINITY: Decimal128 = Decimal128::from_bits(0xF8 << 120);

    pub const fn from_bits(bits: u128) -> Decimal128 {
        Decimal128(bits.to_le_bytes())
    }

    pub const fn to_bits(self) -> u128 {
        u128::from_le_bytes(self.0)
    }

    pub fn parts(self) -> Parts {
        let bits = self.to_bits();
        let negative = bits >> 127 == 1;
        match (bits >> 122) & 0x1F {
            0x1F => return Parts::Nan,
            0x1E => return Parts::Infinity { negative },
            _ => {}
        }
        let (field, coefficient) =
            if (bits >> 125) & 3 == 3 { (bits >> 111, u128::MAX) } else { (bits >> 113, bits & ((1 << 113) - 1)) };
        Parts::Finite(Finite {
            negative,
            coefficient: if coefficient > COEFFICIENT_MAX { 0 } else { coefficient },
            exponent: (field & 0x3FFF) as i32 + EXPONENT_MIN,
        })
    }

    /// Requires a coefficient and an exponent within the limits; what is beyond them is cut to them.
    pub fn from_finite(finite: Finite) -> Decimal128 {
        debug_assert!(finite.coefficient <= COEFFICIENT_MAX);
        let exponent = (finite.exponent.clamp(EXPONENT_MIN, EXPONENT_MAX) - EXPONENT_MIN) as u128;
        let sign = u128::from(finite.negative) << 127;
        Decimal128::from_bits(sign | exponent << 113 | finite.coefficient.min(COEFFICIENT_MAX))
    }

    pub fn is_nan(self) -> bool {
        self.parts() == Parts::Nan
    }

    pub fn is_infinite(self) -> bool {
        matches!(self.parts(), Parts::Infinity { .. })
    }

    pub fn is_zero(self) -> bool {
        matches!(self.parts(), Parts::Finite(finite) if finite.coefficient == 0)
    }

    /// The order of values: NaN first and equal to itself, -0 equal to 0, cohorts equal (1.0 and 1.00).
    pub fn compare(self, other: Decimal128) -> Ordering {
        match (self.parts(), other.parts()) {
            (Parts::Finite(a), Parts::Finite(b)) => a.compare(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl From<i64> for Decimal128 {
    fn from(v: i64) -> Decimal128 {
        Decimal128::from_finite(Finite::from_i64(v))
    }
}

impl From<i32> for Decimal128 {
    fn from(v: i32) -> Decimal128 {
        Decimal128::from(i64::from(v))
    }
}

impl Parts {
    /// Orders everything that is not finite around what is (2).
    pub(crate) fn rank(self) -> u8 {
        match self {
            Parts::Nan => 0,
            Parts::Infinity { negative: true } => 1,
            Parts::Finite(_) => 2,
            Parts::Infinity { negative: false } => 3,
        }
    }
}

impl Finite {
    pub(crate) fn from_i64(v: i64) -> Finite {
        Finite { negative: v < 0, coefficient: u128::from(v.unsigned_abs()), exponent: 0 }
    }

    /// Requires a coefficient that is not zero. Ensures a coefficient of exactly 34 digits and the exponent of its
    /// first digit: equal values give equal results, and `(first, second)` orders as the magnitude does.
    pub(crate) fn normalized(self) -> (i32, u128) {
        let digits = self.coefficient.max(1).ilog10() + 1;
        (self.exponent + digits as i32 - 1, self.coefficient * 10u128.pow(DIGITS_MAX.saturating_sub(digits)))
    }

    pub(crate) fn compare(self, other: Finite) -> Ordering {
        match (self.signum(), other.signum()) {
            (a, b) if a != b => a.cmp(&b),
            (0, _) => Ordering::Equal,
            (1, _) => self.normalized().cmp(&other.normalized()),
            _ => other.normalized().cmp(&self.normalized()),
        }
    }

    pub(crate) fn signum(self) -> i8 {
        match (self.coefficient, self.negative) {
            (0, _) => 0,
            (_, false) => 1,
            (_, true) => -1,
        }
    }

    /// Compares with a finite double, exactly.
    pub(crate) fn compare_f64(self, other: f64) -> Ordering {
        let sign = if other == 0.0 { 0 } else { other.signum() as i8 };
        match (self.signum(), sign) {
            (a, b) if a != b => a.cmp(&b),
            (0, _) => Ordering::Equal,
            (1, _) => self.compare_magnitude(other.abs()),
            _ => self.compare_magnitude(other.abs()).reverse(),
        }
    }

    /// `|self|` against a positive finite double: `c * 10^e` against `m * 2^k`, both scaled to integers.
    pub(crate) fn compare_magnitude(self, other: f64) -> Ordering {
        let first_digit = self.normalized().0;
        if first_digit > 309 || self.coefficient == 0 {
            return if self.coefficient == 0 { Ordering::Less } else { Ordering::Greater };
        }
        if first_digit < -325 {
            return Ordering::Less;
        }
        let (mantissa, binary) = split(other);
        let mut left = Wide::from(self.coefficient);
        let mut right = Wide::from(u128::from(mantissa));
        let (mut left_shift, mut right_shift) = (0u32, 0u32);
        let power = self.exponent.unsigned_abs();
        let (scaled, shift) =
            if self.exponent >= 0 { (&mut left, &mut left_shift) } else { (&mut right, &mut right_shift) };
        scaled.multiply_power_of_five(power);
        *shift += power;
        *(if binary >= 0 { &mut right_shift } else { &mut left_shift }) += binary.unsigned_abs();
        let common = left_shift.min(right_shift);
        left.shift_left(left_shift - common);
        right.shift_left(right_shift - common);
        left.cmp(&right)
    }

    /// The double nearest to `|self|` that is not above it (zero below the smallest, the largest for all beyond), and
    /// whether it is exactly `|self|`.
    pub(crate) fn truncate_to_f64(self) -> (f64, bool) {
        if self.coefficient == 0 {
            return (0.0, true);
        }
        // std parses to the nearest double; it is at most one step too high
        let mut nearest: f64 = format!("{}e{}", self.coefficient, self.exponent).parse().unwrap_or(f64::MAX);
        if nearest.is_infinite() {
            nearest = f64::MAX;
        }
        if nearest == 0.0 {
            return (0.0, false);
        }
        match self.compare_magnitude(nearest) {
            Ordering::Equal => (nearest, true),
            Ordering::Greater => (nearest, false),
            Ordering::Less => (nearest.next_down(), false),
        }
    }
}

/// Requires a positive finite double. Ensures `m * 2^k` = it.
fn split(v: f64) -> (u64, i32) {
    let bits = v.to_bits();
    let field = ((bits >> 52) & 0x7FF) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finite(negative: bool, coefficient: u128, exponent: i32) -> Finite {
        Finite { negative, coefficient, exponent }
    }

    #[test]
    fn bits_and_parts() {
        for (bits, parts) in [
            (0x3040u128 << 112, Parts::Finite(finite(false, 0, 0))),
            ((0x3040 << 112) | 1, Parts::Finite(finite(false, 1, 0))),
            ((0xB03E << 112) | 15, Parts::Finite(finite(true, 15, -1))),
            (0x7800 << 112, Parts::Infinity { negative: false }),
            (0xF800 << 112, Parts::Infinity { negative: true }),
            (0x7C00 << 112, Parts::Nan),
            (0x7E00 << 112, Parts::Nan),
            (0x5FFE << 112 | COEFFICIENT_MAX, Parts::Finite(finite(false, COEFFICIENT_MAX, EXPONENT_MAX))),
            (0, Parts::Finite(finite(false, 0, EXPONENT_MIN))),
            // not canonical: too large a coefficient, and the second form
            ((0x3040 << 112) | (COEFFICIENT_MAX + 1), Parts::Finite(finite(false, 0, 0))),
            (0x6C10 << 112, Parts::Finite(finite(false, 0, 0))),
        ] {
            assert_eq!(Decimal128::from_bits(bits).parts(), parts, "{bits:#x}");
        }
    }

    #[test]
    fn exactness_against_doubles() {
        for (decimal, double, expect) in [
            (finite(false, 1, -1), 0.1, Ordering::Less), // the double 0.1 is a little above
            (finite(false, 3, -1), 0.3, Ordering::Greater), // the double 0.3 is a little below
            (finite(false, 5, -1), 0.5, Ordering::Equal),
            (finite(true, 1, -1), -0.1, Ordering::Greater),
            (finite(false, 9007199254740993, 0), 9007199254740992.0, Ordering::Greater),
            (finite(false, 1, 6111), f64::MAX, Ordering::Greater),
            (finite(false, 1, 308), f64::MAX, Ordering::Less),
            (finite(false, 1, -6176), f64::from_bits(1), Ordering::Less),
            (finite(false, 5, -324), f64::from_bits(1), Ordering::Greater), // the smallest double is 4.94e-324
            (finite(false, 4, -324), f64::from_bits(1), Ordering::Less),
            (finite(true, 0, 5), 0.0, Ordering::Equal),
            (finite(false, 0, 5), -1.0, Ordering::Greater),
        ] {
            assert_eq!(decimal.compare_f64(double), expect, "{decimal:?} {double:e}");
        }
    }

    #[test]
    fn truncation() {
        for (decimal, expect) in [
            (finite(false, 1, -1), (0.1f64.next_down(), false)),
            (finite(false, 3, -1), (0.3, false)),
            (finite(true, 25, -2), (0.25, true)),
            (finite(false, 1, 400), (f64::MAX, false)),
            (finite(false, 1, -400), (0.0, false)),
            (finite(false, 4, -324), (0.0, false)),
            (finite(false, 5, -324), (f64::from_bits(1), false)),
        ] {
            assert_eq!(decimal.truncate_to_f64(), expect, "{decimal:?}");
        }
    }
}
