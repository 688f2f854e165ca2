//! Between decimals and binary numbers.

use std::cmp::Ordering;

use super::{Finite, Parts};
use crate::Decimal128;

impl Decimal128 {
    /// As MongoDB converts a double: to 15 significant digits, zeros at the end included (0.1 becomes
    /// 0.100000000000000), because more would show digits the writer of the double never meant.
    pub fn from_f64(v: f64) -> Decimal128 {
        if v.is_nan() {
            return Decimal128::NAN;
        }
        if v.is_infinite() {
            return if v < 0.0 { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY };
        }
        if v == 0.0 {
            return Decimal128::from_finite(Finite { negative: v.is_sign_negative(), coefficient: 0, exponent: 0 });
        }
        format!("{v:.14e}").parse().unwrap_or(Decimal128::NAN)
    }

    /// Returns the digits of a double that its value has, up to 34 of them: 0.1 becomes 0.1000000000000000055511151231257827.
    pub fn from_f64_wide(v: f64) -> Decimal128 {
        if !v.is_finite() || v == 0.0 {
            return Decimal128::from_f64(v);
        }
        let text = format!("{v:.33e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{digits}e{exponent}").parse().map_or(Decimal128::NAN, Decimal128::without_exponent)
    }

    /// Writes a whole number out where it has room.
    fn without_exponent(self) -> Decimal128 {
        match self.parts() {
            Parts::Finite(Finite { negative, coefficient, exponent }) if exponent > 0 => {
                let whole = 10u128.checked_pow(exponent.unsigned_abs()).and_then(|unit| coefficient.checked_mul(unit));
                match whole.filter(|whole| *whole < 10u128.pow(34)) {
                    Some(coefficient) => Decimal128::from_finite(Finite { negative, coefficient, exponent: 0 }),
                    None => self,
                }
            }
            _ => self,
        }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self.parts() {
            Parts::Nan => f64::NAN,
            Parts::Infinity { negative } => {
                if negative {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Parts::Finite(Finite { negative, coefficient, exponent }) => {
                let magnitude: f64 = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    /// Returns the value cut to a whole number; `None` if it is not finite or does not fit.
    pub fn to_i64_truncated(self) -> Option<i64> {
        self.to_whole(|whole, _, _| whole)
    }

    /// Returns the nearest whole number, the even one of two that are equally near; `None` if it is not finite or does not fit.
    pub fn to_i64_rounded(self) -> Option<i64> {
        self.to_whole(|whole, rest, unit| {
            let up = match rest.cmp(&(unit - rest)) {
                Ordering::Less => false,
                Ordering::Equal => whole % 2 == 1,
                Ordering::Greater => true,
            };
            whole + u128::from(up)
        })
    }

    /// `decide` is given the magnitude's whole part, and what is left of it in units of `1 / unit`.
    fn to_whole(self, decide: impl Fn(u128, u128, u128) -> u128) -> Option<i64> {
        let Parts::Finite(Finite { negative, coefficient, exponent }) = self.parts() else { return None };
        let power = 10u128.checked_pow(exponent.unsigned_abs());
        let magnitude = match power {
            _ if coefficient == 0 => 0,
            Some(power) if exponent >= 0 => coefficient.checked_mul(power)?,
            Some(power) => decide(coefficient / power, coefficient % power, power),
            None if exponent < 0 => 0,
            None => return None,
        };
        let magnitude = i128::try_from(magnitude).ok()?;
        i64::try_from(if negative { -magnitude } else { magnitude }).ok()
    }

    /// The int64 of exactly this value.
    pub fn to_i64_exact(self) -> Option<i64> {
        self.to_i64_truncated().filter(|whole| self.compare(Decimal128::from(*whole)).is_eq())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_with_all_their_digits() {
        for (double, expect) in [
            (0.1, "0.1000000000000000055511151231257827"),
            (0.5, "0.5"),
            (-3.0, "-3"),
            (1e20, "100000000000000000000"),
            (0.0, "0"),
            (5e-324, "4.940656458412465441765687928682214E-324"),
        ] {
            assert_eq!(Decimal128::from_f64_wide(double).to_string(), expect);
        }
        assert!(Decimal128::from_f64_wide(f64::NAN).is_nan());
    }

    #[test]
    fn rounded_to_the_nearest_even_number() {
        for (decimal, expect) in [
            ("0.5", Some(0)),
            ("1.5", Some(2)),
            ("2.5", Some(2)),
            ("-0.9", Some(-1)),
            ("-2.5", Some(-2)),
            ("0.50000000000000000000001", Some(1)),
            ("1E-6000", Some(0)),
            ("9223372036854775807.4", Some(i64::MAX)),
            ("9223372036854775807.5", None),
            ("1E+30", None),
            ("NaN", None),
        ] {
            let decimal: Decimal128 = decimal.parse().unwrap();
            assert_eq!(decimal.to_i64_rounded(), expect, "{decimal}");
        }
    }

    #[test]
    fn from_doubles() {
        for (v, expect) in [
            (0.1, "0.100000000000000"),
            (5.0, "5.00000000000000"),
            (9999999.5, "9999999.50000000"),
            (1e20, "1.00000000000000E+20"),
            (-2.5e-10, "-2.50000000000000E-10"),
            (0.0, "0"),
            (-0.0, "-0"),
            (f64::MAX, "1.79769313486232E+308"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(Decimal128::from_f64(v).to_string(), expect);
        }
    }

    #[test]
    fn to_binary() {
        for (text, double, whole, exact) in [
            ("0.1", 0.1, Some(0), None),
            ("-7.9", -7.9, Some(-7), None),
            ("1E3", 1000.0, Some(1000), Some(1000)),
            ("5.00", 5.0, Some(5), Some(5)),
            ("9223372036854775807", 9223372036854775807.0, Some(i64::MAX), Some(i64::MAX)),
            ("-9223372036854775808", -9223372036854775808.0, Some(i64::MIN), Some(i64::MIN)),
            ("9223372036854775808", 9223372036854775808.0, None, None),
            ("1E400", f64::INFINITY, None, None),
            ("1E-400", 0.0, Some(0), None),
            ("0E6000", 0.0, Some(0), Some(0)),
            ("Infinity", f64::INFINITY, None, None),
        ] {
            let decimal: Decimal128 = text.parse().unwrap();
            assert_eq!((decimal.to_f64(), decimal.to_i64_truncated(), decimal.to_i64_exact()), (double, whole, exact));
        }
    }
}
