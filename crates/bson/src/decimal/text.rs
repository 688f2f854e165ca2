//! Decimals as text, in the form of the General Decimal Arithmetic specification that BSON uses.

use std::{fmt, str::FromStr};

use super::{COEFFICIENT_MAX, Finite, Parts, arithmetic::round_digits};
use crate::{Decimal128, Error};

impl fmt::Display for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finite { negative, coefficient, exponent } = match self.parts() {
            Parts::Nan => return f.write_str("NaN"),
            Parts::Infinity { negative } => return f.write_str(if negative { "-Infinity" } else { "Infinity" }),
            Parts::Finite(finite) => finite,
        };
        if negative {
            f.write_str("-")?;
        }
        let digits = coefficient.to_string();
        let first_digit = exponent + digits.len() as i32 - 1;
        let (head, tail) = digits.split_at(1);
        if exponent > 0 || first_digit < -6 {
            let point = if tail.is_empty() { "" } else { "." };
            return write!(f, "{head}{point}{tail}E{first_digit:+}");
        }
        let behind = exponent.unsigned_abs() as usize;
        match digits.split_at_checked(digits.len().saturating_sub(behind)) {
            _ if behind == 0 => f.write_str(&digits),
            Some((whole, fraction)) if !whole.is_empty() => write!(f, "{whole}.{fraction}"),
            _ => write!(f, "0.{digits:0>behind$}"),
        }
    }
}

impl FromStr for Decimal128 {
    type Err = Error;

    /// Digits with a point and an exponent, `Infinity`, `inf`, `NaN`; more than 34 digits are rounded half to even.
    fn from_str(text: &str) -> Result<Decimal128, Error> {
        parse(text).ok_or_else(|| Error::BadDecimal(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Decimal128> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(unsigned) => (text.starts_with('-'), unsigned),
        None => (false, text),
    };
    if unsigned.eq_ignore_ascii_case("nan") {
        return Some(if negative { Decimal128::NEG_NAN } else { Decimal128::NAN });
    }
    if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
        return Some(if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY });
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut coefficient = 0u128;
    let mut sticky = false;
    let mut exponent = exponent - i64::try_from(fraction.len()).ok()?;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let digit = u128::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?);
        // one digit more than fits decides the rounding, with what follows it
        if coefficient <= COEFFICIENT_MAX {
            coefficient = coefficient * 10 + digit;
        } else {
            sticky |= digit != 0;
            exponent += 1;
        }
    }
    Some(round_digits(negative, coefficient, sticky, exponent.clamp(-20_000, 20_000) as i32))
}

/// Exponents beyond any use are cut to one that is.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse::<i64>().unwrap_or(i64::MAX).min(1_000_000_000);
    Some(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_to_decimal_to_text() {
        for (text, expect) in [
            ("0", "0"),
            ("-0", "-0"),
            ("1", "1"),
            ("-1.50", "-1.50"),
            ("+.5", "0.5"),
            ("5.", "5"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("1E3", "1E+3"),
            ("1.23e+5", "1.23E+5"),
            ("12300e-2", "123.00"),
            ("0E-6176", "0E-6176"),
            ("0e99999", "0E+6111"),
            ("1E+6144", "1.000000000000000000000000000000000E+6144"),
            ("1E+6145", "Infinity"),
            ("-1E999999999999999999999", "-Infinity"),
            ("1E-6177", "0E-6176"),
            ("6E-6177", "1E-6176"),
            ("inf", "Infinity"),
            ("-Infinity", "-Infinity"),
            ("nan", "NaN"),
            ("12345678901234567890123456789012345", "1.234567890123456789012345678901234E+34"),
            ("12345678901234567890123456789012355", "1.234567890123456789012345678901236E+34"),
            ("123456789012345678901234567890123450000001", "1.234567890123456789012345678901235E+41"),
            ("0.00000000000000000000000000000000000000000000001", "1E-47"),
        ] {
            assert_eq!(text.parse::<Decimal128>().map(|d| d.to_string()), Ok(expect.to_owned()), "{text}");
        }
    }

    #[test]
    fn not_decimals() {
        for text in ["", "-", ".", "e5", "1e", "1e+", "1.2.3", "1 ", " 1", "abc", "0x10", "1e1.5", "--1", "in"] {
            assert!(text.parse::<Decimal128>().is_err(), "{text:?}");
        }
    }
}
