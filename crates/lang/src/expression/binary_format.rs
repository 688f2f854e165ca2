//! Texts and numbers of binary data, as `$convert` reads and writes them.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// Subtype of a UUID.
pub(super) const UUID: u8 = 4;

/// The `format` of `$convert`: the form of a text of binary data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A UUID as such, all else in base64. Only of binary data, never of a text.
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

impl Format {
    pub(super) fn of(name: &str) -> Option<Format> {
        Some(match name {
            "auto" => Format::Auto,
            "base64" => Format::Base64,
            "base64url" => Format::Base64Url,
            "hex" => Format::Hex,
            "utf8" => Format::Utf8,
            "uuid" => Format::Uuid,
            _ => return None,
        })
    }

    /// The text of binary data; none when it has no such text.
    pub(super) fn write(self, subtype: u8, bytes: &[u8]) -> Option<String> {
        Some(match self {
            Format::Auto if subtype == UUID && bytes.len() == 16 => hyphenated(bytes)?,
            Format::Auto | Format::Base64 => STANDARD.encode(bytes),
            Format::Base64Url => URL_SAFE_NO_PAD.encode(bytes),
            Format::Hex => hex(bytes, "0123456789ABCDEF"),
            Format::Utf8 => String::from_utf8(bytes.to_vec()).ok()?,
            Format::Uuid if subtype == UUID => hyphenated(bytes)?,
            Format::Uuid => return None,
        })
    }

    /// The bytes of a text; none for another form. A UUID has its own subtype, which no other form makes.
    pub(super) fn read(self, subtype: u8, text: &str) -> Option<Vec<u8>> {
        if (self == Format::Uuid) != (subtype == UUID) {
            return None;
        }
        match self {
            Format::Auto => None,
            Format::Base64 => STANDARD.decode(text).ok(),
            Format::Base64Url => URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok(),
            Format::Hex => digits(text),
            Format::Utf8 => Some(text.as_bytes().to_vec()),
            Format::Uuid => {
                let dashes = [8, 13, 18, 23];
                let shaped = text.len() == 36 && dashes.iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
                let bytes = shaped.then(|| digits(&text.replace('-', ""))).flatten()?;
                (bytes.len() == 16).then_some(bytes)
            }
        }
    }
}

fn hex(bytes: &[u8], alphabet: &str) -> String {
    let digit = |at: u8| alphabet.as_bytes().get(usize::from(at)).map_or('0', |byte| char::from(*byte));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn hyphenated(bytes: &[u8]) -> Option<String> {
    let digits = (bytes.len() == 16).then(|| hex(bytes, "0123456789abcdef"))?;
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| digits.get(range).unwrap_or_default());
    Some(parts.join("-"))
}

fn digits(text: &str) -> Option<Vec<u8>> {
    let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect()
}

/// A double of a text as C reads it: decimal digits, an infinity, NaN, or hexadecimal digits with a binary exponent.
/// None for another form, and for what is too large or too small.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(unsigned) => (text.starts_with('-'), unsigned),
        None => (false, text),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    if let Some(digits) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        return Some(sign * hexadecimal(digits)?);
    }
    if unsigned.starts_with(['+', '-']) {
        return None;
    }
    let value: f64 = unsigned.parse().ok()?;
    let named = unsigned.starts_with(|c: char| c.is_ascii_alphabetic());
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let lost =
        !named && (value.is_infinite() || value == 0.0 && mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte)));
    (!lost).then_some(sign * value)
}

fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // digits that do not fit into the sum have no weight in a double, but for the power
    let (mut sum, mut dropped) = (0u128, 0i64);
    for digit in whole.bytes().chain(fraction.bytes()) {
        let digit = char::from(digit).to_digit(16)?;
        match sum >> 120 {
            0 => sum = sum << 4 | u128::from(digit),
            _ => {
                sum |= u128::from(digit != 0);
                dropped += 4;
            }
        }
    }
    let power = i64::from(exponent) + dropped - 4 * i64::try_from(fraction.len()).ok()?;
    // in two steps, as the power alone may be no double
    let power = power.clamp(-2000, 2000) as i32;
    let value = sum as f64 * 2f64.powi(power / 2) * 2f64.powi(power - power / 2);
    let lost = value.is_infinite() || value == 0.0 && sum != 0;
    (!lost).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_binary_data_and_back() {
        let id = [0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        for (format, subtype, bytes, text) in [
            (Format::Base64, 0, &b"\xfb\xff"[..], "+/8="),
            (Format::Base64Url, 0, &b"\xfb\xff"[..], "-_8"),
            (Format::Hex, 5, &b"\x0f\xa0"[..], "0FA0"),
            (Format::Utf8, 0, "é".as_bytes(), "é"),
            (Format::Uuid, UUID, &id[..], "abcdef01-0203-0405-0607-08090a0b0c0d"),
        ] {
            assert_eq!(format.write(subtype, bytes).as_deref(), Some(text));
            assert_eq!(format.read(subtype, text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(Format::Auto.write(UUID, &id).as_deref(), Some("abcdef01-0203-0405-0607-08090a0b0c0d"));
        assert_eq!(Format::Auto.write(UUID, b"abc").as_deref(), Some("YWJj"));
        assert_eq!(Format::Auto.read(0, "YWJj"), None);
        for (format, subtype, text) in [
            (Format::Base64, 0, "+/8"),
            (Format::Base64, 0, "-_8="),
            (Format::Base64Url, 0, "+/8"),
            (Format::Hex, 0, "0fa"),
            (Format::Hex, 0, "0g"),
            (Format::Base64, UUID, "YWJj"),
            (Format::Uuid, 0, "abcdef01-0203-0405-0607-08090a0b0c0d"),
            (Format::Uuid, UUID, "abcdef0102030405060708090a0b0c0d"),
            (Format::Uuid, UUID, "abcdef010-203-0405-0607-08090a0b0c0d"),
        ] {
            assert_eq!(format.read(subtype, text), None, "{format:?} {text}");
        }
        assert_eq!(Format::Utf8.write(0, b"\xff"), None);
        assert_eq!(Format::Uuid.write(0, &id), None);
    }

    #[test]
    fn doubles_of_texts() {
        for (text, expect) in [
            ("1.5e-3", Some(0.0015)),
            ("+inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("-0", Some(-0.0)),
            ("0e999", Some(0.0)),
            ("0x1.8p1", Some(3.0)),
            ("-0XFF", Some(-255.0)),
            ("0x1p-1074", Some(5e-324)),
            ("1e309", None),
            ("1e-400", None),
            ("0x1p1024", None),
            ("0x", None),
            ("0x.p0", None),
            ("0x1p", None),
            ("+-1", None),
            ("1 ", None),
        ] {
            assert_eq!(parse_double(text), expect, "{text}");
        }
    }
}
