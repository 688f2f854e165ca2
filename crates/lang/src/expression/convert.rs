//! Conversions between types, as `$convert` and `$toInt`, `$toString` ... make them.

use arbor_bson::{Number, ObjectId, Type, Value, ValueRef};

use super::binary_format::{Format, parse_double};
use super::evaluated::STRING_BYTES_MAX;
use super::{Evaluated, date, is_true};
use crate::{Code, Error, Result, text};

/// A target of `$convert`, with what concerns binary data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub to: Type,
    pub subtype: u8,
    /// The form of a text of binary data; required between the two.
    pub format: Option<Format>,
    pub big_endian: bool,
}

impl Target {
    /// The target of the `$toX` operators.
    pub(super) fn new(to: Type) -> Target {
        Target { to, subtype: 0, format: Some(Format::Auto), big_endian: false }
    }
}

/// The `$toX` operators: null stays null.
pub(super) fn convert_or_null(value: Evaluated<'_>, to: Type) -> Result<Evaluated<'_>> {
    if value.is_nullish() {
        return Ok(Evaluated::null());
    }
    Ok(Evaluated::Owned(convert(value.or_null(), Target::new(to))?))
}

/// The value in another type; ConversionFailure when there is no way.
pub(super) fn convert(value: ValueRef, target: Target) -> Result<Value> {
    let to = target.to;
    match (value, to) {
        (ValueRef::Binary { subtype, bytes }, to) if to != Type::Bool => of_binary(subtype, bytes, value, target),
        (_, Type::Binary) => to_binary(value, target),
        (same, to) if same.ty() == to && convertible(to) => Ok(same.to_value()),
        // every type has a truth value
        (value, Type::Bool) => Ok(Value::Bool(is_true(value))),
        (value, Type::String) => to_text(value)?.map(Value::String).ok_or_else(|| unsupported(value, to)),
        (ValueRef::String(text), Type::ObjectId) => parse_object_id(text).map(Value::ObjectId),
        (value, Type::DateTime) => to_date(value),
        (ValueRef::Bool(v), _) => of_number(Number::Int32(i32::from(v)), value, to),
        (ValueRef::DateTime(v), Type::Double | Type::Int64 | Type::Decimal128) => {
            of_number(Number::Int64(v), value, to)
        }
        (ValueRef::String(text), Type::Int32 | Type::Int64 | Type::Double | Type::Decimal128) => parse_number(text, to),
        (value, _) => match Number::of(value) {
            Some(number) => of_number(number, value, to),
            None => Err(unsupported(value, to)),
        },
    }
}

fn of_binary(subtype: u8, bytes: &[u8], value: ValueRef, target: Target) -> Result<Value> {
    let unsupported = || unsupported(value, target.to);
    match target.to {
        Type::Binary if subtype == target.subtype => Ok(value.to_value()),
        Type::Binary => Err(failure(format!(
            "Conversions between different binary subtypes are not supported: {subtype} to {} in $convert with no onError value",
            target.subtype
        ))),
        Type::String => {
            let format = target.format.ok_or_else(|| missing_format(value, target.to))?;
            let text = format.write(subtype, bytes).filter(|text| text.len() < STRING_BYTES_MAX);
            text.map(Value::String).ok_or_else(unsupported)
        }
        Type::Double => double_of_bytes(bytes, target.big_endian).map(Value::Double).ok_or_else(unsupported),
        Type::Int32 if bytes.len() > 4 => Err(unsupported()),
        Type::Int32 => {
            integer_of_bytes(bytes, target.big_endian).map(|v| Value::Int32(v as i32)).ok_or_else(unsupported)
        }
        Type::Int64 => integer_of_bytes(bytes, target.big_endian).map(Value::Int64).ok_or_else(unsupported),
        _ => Err(unsupported()),
    }
}

fn to_binary(value: ValueRef, target: Target) -> Result<Value> {
    let ordered = |mut bytes: Vec<u8>| {
        if target.big_endian {
            bytes.reverse();
        }
        bytes
    };
    let bytes = match value {
        ValueRef::String(text) => {
            let format = target.format.ok_or_else(|| missing_format(value, target.to))?;
            let message = format!(
                "Input '{text}' is not a valid text of binary data for its format in $convert with no onError value"
            );
            format.read(target.subtype, text).ok_or_else(|| failure(message))?
        }
        ValueRef::Int32(v) => ordered(v.to_le_bytes().to_vec()),
        ValueRef::Int64(v) => ordered(v.to_le_bytes().to_vec()),
        ValueRef::Double(v) => ordered(v.to_le_bytes().to_vec()),
        _ => return Err(unsupported(value, target.to)),
    };
    Ok(Value::Binary { subtype: target.subtype, bytes })
}

fn missing_format(value: ValueRef, to: Type) -> Error {
    let (from, to) = (text::type_name(Some(value)), text::type_alias(to));
    Error::location(4341115, format!("Format must be specified when converting from '{from}' to '{to}'"))
}

/// A signed integer of 1, 2, 4 or 8 bytes.
fn integer_of_bytes(bytes: &[u8], big_endian: bool) -> Option<i64> {
    if !matches!(bytes.len(), 1 | 2 | 4 | 8) {
        return None;
    }
    let low_first: Vec<u8> = if big_endian { bytes.iter().rev().copied().collect() } else { bytes.to_vec() };
    let unsigned = low_first.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let unused = 64 - 8 * bytes.len() as u32;
    Some((unsigned << unused) as i64 >> unused)
}

/// A double of 4 or 8 bytes.
fn double_of_bytes(bytes: &[u8], big_endian: bool) -> Option<f64> {
    match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
        (Ok(bytes), _) if big_endian => Some(f64::from(f32::from_be_bytes(bytes))),
        (Ok(bytes), _) => Some(f64::from(f32::from_le_bytes(bytes))),
        (_, Ok(bytes)) if big_endian => Some(f64::from_be_bytes(bytes)),
        (_, Ok(bytes)) => Some(f64::from_le_bytes(bytes)),
        _ => None,
    }
}

fn convertible(to: Type) -> bool {
    use Type::*;
    matches!(to, Double | String | ObjectId | Bool | DateTime | Int32 | Int64 | Decimal128)
}

fn of_number(number: Number, value: ValueRef, to: Type) -> Result<Value> {
    match to {
        Type::Double => {
            let double = number.to_f64();
            let lost = double.is_infinite() && matches!(number, Number::Decimal(v) if !v.is_infinite());
            if lost { Err(overflow(value)) } else { Ok(Value::Double(double)) }
        }
        // of a double the 15 digits that are sure, as MongoDB
        Type::Decimal128 => Ok(Value::Decimal128(number.to_decimal())),
        Type::Int64 => whole(number, value).map(Value::Int64),
        Type::Int32 => {
            let whole = whole(number, value)?;
            i32::try_from(whole).map(Value::Int32).map_err(|_| overflow(value))
        }
        _ => Err(unsupported(value, to)),
    }
}

fn whole(number: Number, value: ValueRef) -> Result<i64> {
    if number.is_nan() {
        return Err(failure("Attempt to convert NaN value to integer type in $convert with no onError value"));
    }
    if number.to_f64().is_infinite() {
        return Err(failure("Attempt to convert infinity value to integer type in $convert with no onError value"));
    }
    number.to_i64_truncated().ok_or_else(|| overflow(value))
}

fn to_date(value: ValueRef) -> Result<Value> {
    match value {
        ValueRef::String(text) => date::parse(text).map(Value::DateTime).map_err(|error| failure(error.message)),
        ValueRef::ObjectId(_) | ValueRef::Timestamp(_) | ValueRef::DateTime(_) => {
            Ok(Value::DateTime(date::millis(value)?))
        }
        ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::Decimal128(_) => match Number::of(value) {
            Some(number) => whole(number, value).map(Value::DateTime),
            None => Err(unsupported(value, Type::DateTime)),
        },
        _ => Err(unsupported(value, Type::DateTime)),
    }
}

fn parse_number(text: &str, to: Type) -> Result<Value> {
    let bad = |why: &str| failure(format!("Failed to parse number '{text}' in $convert with no onError value: {why}"));
    if text.is_empty() {
        return Err(bad("No digits"));
    }
    if text.starts_with(char::is_whitespace) {
        return Err(bad("Leading whitespace"));
    }
    let whole = |low: i64, high: i64| match text.parse::<i128>() {
        Ok(v) => i64::try_from(v).ok().filter(|v| (low..=high).contains(v)).ok_or_else(|| bad("Overflow")),
        Err(_) => Err(bad("Did not consume whole string.")),
    };
    match to {
        Type::Int32 => whole(i64::from(i32::MIN), i64::from(i32::MAX)).map(|v| Value::Int32(v as i32)),
        Type::Int64 => whole(i64::MIN, i64::MAX).map(Value::Int64),
        Type::Decimal128 => text.parse().map(Value::Decimal128).map_err(|_| bad("Failed to parse string to decimal")),
        _ => parse_double(text).map(Value::Double).ok_or_else(|| bad("Did not consume whole string.")),
    }
}

fn parse_object_id(text: &str) -> Result<ObjectId> {
    let bad =
        |why: String| failure(format!("Failed to parse objectId '{text}' in $convert with no onError value: {why}"));
    if text.len() != 24 {
        return Err(bad(format!("Invalid string length for parsing to OID, expected 24 but found {}", text.len())));
    }
    let mut id = [0; 12];
    for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
        let parsed = std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
        *byte = parsed
            .filter(|_| digits.iter().all(u8::is_ascii_hexdigit))
            .ok_or_else(|| bad(format!("Invalid character found in hex string: '{text}'")))?;
    }
    Ok(ObjectId(id))
}

/// The text of a value that has one.
pub(super) fn to_text(value: ValueRef) -> Result<Option<String>> {
    Ok(Some(match value {
        ValueRef::String(v) | ValueRef::Symbol(v) => v.to_owned(),
        ValueRef::Bool(v) => v.to_string(),
        ValueRef::Int32(v) => v.to_string(),
        ValueRef::Int64(v) => v.to_string(),
        ValueRef::Double(v) => double(v),
        ValueRef::Decimal128(v) => v.to_string(),
        ValueRef::ObjectId(v) => v.to_string(),
        ValueRef::DateTime(v) => date::iso(v)?,
        _ => return Ok(None),
    }))
}

/// A double as text: the shortest that gives it back, with an exponent from 1e+16 on and below 1e-4.
pub(super) fn double(v: f64) -> String {
    if v.is_nan() {
        return "NaN".to_owned();
    }
    if v.is_infinite() {
        return if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if v == 0.0 || (1e-4..1e16).contains(&v.abs()) {
        return v.to_string();
    }
    let text = format!("{v:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Coerces an argument of a string operator to text; "" for null and missing. COMPAT: a double has the six digits of C's
/// `%g`, a timestamp the month, the day and the time of ctime.
pub(super) fn coerce_to_string(value: &Evaluated) -> Result<String> {
    if value.is_nullish() {
        return Ok(String::new());
    }
    let bare = match value.or_null() {
        ValueRef::JavaScript(code) => Some(code.to_owned()),
        ValueRef::Double(v) => Some(six_digits(v)),
        ValueRef::Timestamp(v) => Some(format!("{}:{}", date::month_and_time(v.seconds), v.increment)),
        ValueRef::Bool(_) | ValueRef::ObjectId(_) => None,
        other => to_text(other)?,
    };
    bare.ok_or_else(|| Error::location(16007, format!("can't convert from BSON type {} to String", value.type_name())))
}

/// A double as C's `%g` writes it.
fn six_digits(v: f64) -> String {
    if v.is_nan() {
        return "nan".to_owned();
    }
    if v.is_infinite() {
        return if v > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = format!("{v:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        return trimmed(&format!("{v:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

/// The error of a conversion that there is none of.
pub(super) fn unsupported(value: ValueRef, to: Type) -> Error {
    let (from, to) = (text::type_name(Some(value)), text::type_alias(to));
    failure(format!("Unsupported conversion from {from} to {to} in $convert with no onError value"))
}

fn overflow(value: ValueRef) -> Error {
    failure(format!("Conversion would overflow target type in $convert with no onError value: {}", text::shell(value)))
}

fn failure(message: impl Into<String>) -> Error {
    Error::new(Code::CONVERSION_FAILURE, message)
}
