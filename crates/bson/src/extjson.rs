//! MongoDB Extended JSON v2, written (never read): canonical keeps every type, relaxed is easier on the eye.

use std::fmt::{self, Display, Write};

use crate::display::write_quoted;
use crate::{Doc, Elements, ValueRef};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Canonical,
    Relaxed,
}

pub fn value(value: ValueRef<'_>, form: Form) -> impl Display {
    fmt::from_fn(move |f| write_value(f, value, form))
}

pub fn doc(doc: Doc<'_>, form: Form) -> impl Display {
    fmt::from_fn(move |f| write_value(f, ValueRef::Document(doc), form))
}

/// A document or an array that is being written.
struct Open<'a> {
    elements: Elements<'a>,
    named: bool,
    is_empty: bool,
    end: &'static str,
}

impl<'a> Open<'a> {
    fn new(doc: Doc<'a>, named: bool, end: &'static str) -> Open<'a> {
        Open { elements: doc.iter(), named, is_empty: true, end }
    }

    fn write_name(&mut self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        if !std::mem::replace(&mut self.is_empty, false) {
            f.write_char(',')?;
        }
        if self.named {
            write_string(f, name)?;
            f.write_char(':')?;
        }
        Ok(())
    }
}

/// Walks with a stack on the heap, whatever the depth.
fn write_value(f: &mut fmt::Formatter<'_>, value: ValueRef<'_>, form: Form) -> fmt::Result {
    let mut open: Vec<Open<'_>> = write_head(f, value, form)?.into_iter().collect();
    while let Some(innermost) = open.last_mut() {
        match innermost.elements.next() {
            Some((name, value)) => {
                innermost.write_name(f, name)?;
                open.extend(write_head(f, value, form)?);
            }
            None => {
                f.write_str(innermost.end)?;
                open.pop();
            }
        }
    }
    Ok(())
}

/// Writes a scalar, or how a value with elements begins; returns the rest of that.
fn write_head<'a>(f: &mut fmt::Formatter<'_>, value: ValueRef<'a>, form: Form) -> Result<Option<Open<'a>>, fmt::Error> {
    let (begin, open) = match value {
        ValueRef::Document(doc) => ("{", Open::new(doc, true, "}")),
        ValueRef::Array(array) => ("[", Open::new(array.as_doc(), false, "]")),
        ValueRef::JavaScriptWithScope { code, scope } => {
            f.write_str("{\"$code\":")?;
            write_string(f, code)?;
            (",\"$scope\":{", Open::new(scope, true, "}}"))
        }
        scalar => return write_scalar(f, scalar, form).map(|()| None),
    };
    f.write_str(begin)?;
    Ok(Some(open))
}

/// Requires a value without elements.
fn write_scalar(f: &mut fmt::Formatter<'_>, value: ValueRef<'_>, form: Form) -> fmt::Result {
    match value {
        ValueRef::String(v) => write_string(f, v),
        ValueRef::Bool(v) => write!(f, "{v}"),
        ValueRef::Null => f.write_str("null"),
        ValueRef::Int32(v) if form == Form::Relaxed => write!(f, "{v}"),
        ValueRef::Int64(v) if form == Form::Relaxed => write!(f, "{v}"),
        ValueRef::Double(v) if form == Form::Relaxed && v.is_finite() => write!(f, "{v:?}"),
        ValueRef::DateTime(v) => write_date(f, v, form),
        other => write_typed(f, other),
    }
}

/// The types that JSON has no value for: an object with one `$` key.
fn write_typed(f: &mut fmt::Formatter<'_>, value: ValueRef<'_>) -> fmt::Result {
    match value {
        ValueRef::Int32(v) => write!(f, "{{\"$numberInt\":\"{v}\"}}"),
        ValueRef::Int64(v) => write!(f, "{{\"$numberLong\":\"{v}\"}}"),
        ValueRef::Double(v) => write!(f, "{{\"$numberDouble\":\"{}\"}}", double(v)),
        ValueRef::Decimal128(v) => write!(f, "{{\"$numberDecimal\":\"{v}\"}}"),
        ValueRef::ObjectId(v) => write!(f, "{{\"$oid\":\"{v}\"}}"),
        ValueRef::Symbol(v) => {
            f.write_str("{\"$symbol\":")?;
            write_string(f, v)?;
            f.write_char('}')
        }
        ValueRef::Binary { subtype, bytes } => {
            write!(f, "{{\"$binary\":{{\"base64\":\"{}\",\"subType\":\"{subtype:02x}\"}}}}", base64(bytes))
        }
        ValueRef::Regex { pattern, options } => {
            f.write_str("{\"$regularExpression\":{\"pattern\":")?;
            write_string(f, pattern)?;
            f.write_str(",\"options\":")?;
            write_string(f, options)?;
            f.write_str("}}")
        }
        ValueRef::DbPointer { namespace, id } => {
            f.write_str("{\"$dbPointer\":{\"$ref\":")?;
            write_string(f, namespace)?;
            write!(f, ",\"$id\":{{\"$oid\":\"{id}\"}}}}}}")
        }
        ValueRef::JavaScript(v) => {
            f.write_str("{\"$code\":")?;
            write_string(f, v)?;
            f.write_char('}')
        }
        ValueRef::Timestamp(v) => write!(f, "{{\"$timestamp\":{{\"t\":{},\"i\":{}}}}}", v.seconds, v.increment),
        ValueRef::MinKey => f.write_str("{\"$minKey\":1}"),
        ValueRef::MaxKey => f.write_str("{\"$maxKey\":1}"),
        _ => f.write_str("{\"$undefined\":true}"),
    }
}

fn double(v: f64) -> String {
    match v {
        _ if v.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        v => format!("{v:?}"),
    }
}

fn write_string(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write_quoted(f, text, |c| c < ' ')
}

/// Relaxed dates of the years 1970 to 9999 are ISO 8601.
fn write_date(f: &mut fmt::Formatter<'_>, millis: i64, form: Form) -> fmt::Result {
    const YEAR_10000: i64 = 253_402_300_800_000;
    if form == Form::Canonical || !(0..YEAR_10000).contains(&millis) {
        return write!(f, "{{\"$date\":{{\"$numberLong\":\"{millis}\"}}}}");
    }
    write!(f, "{{\"$date\":\"{}\"}}", iso_date(millis))
}

/// `2026-01-31T12:00:00.123Z`, without the fraction when it is zero. Requires a year of four digits.
fn iso_date(millis: i64) -> String {
    let (days, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    let fraction = if milli == 0 { String::new() } else { format!(".{milli:03}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Days since 1970-01-01 as year, month, day (years that begin in March make leap days the last of a year).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let digit = DIGITS.get((bits >> (18 - 6 * i) & 63) as usize).copied().unwrap_or_default();
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayBuf, DocBuf, ObjectId, Timestamp};

    fn check(value: ValueRef<'_>, canonical: &str, relaxed: &str) {
        assert_eq!(super::value(value, Form::Canonical).to_string(), canonical);
        assert_eq!(super::value(value, Form::Relaxed).to_string(), relaxed);
    }

    #[test]
    fn every_type() {
        check(1i32.into(), r#"{"$numberInt":"1"}"#, "1");
        check(1i64.into(), r#"{"$numberLong":"1"}"#, "1");
        check(1.0.into(), r#"{"$numberDouble":"1.0"}"#, "1.0");
        check(f64::NAN.into(), r#"{"$numberDouble":"NaN"}"#, r#"{"$numberDouble":"NaN"}"#);
        check("a\"\n\u{1}".into(), r#""a\"\n\u0001""#, r#""a\"\n\u0001""#);
        check("\u{7f}\u{9f}".into(), "\"\u{7f}\u{9f}\"", "\"\u{7f}\u{9f}\"");
        check(
            ObjectId([1; 12]).into(),
            r#"{"$oid":"010101010101010101010101"}"#,
            r#"{"$oid":"010101010101010101010101"}"#,
        );
        let date = ValueRef::DateTime(1_709_210_096_789);
        check(date, r#"{"$date":{"$numberLong":"1709210096789"}}"#, r#"{"$date":"2024-02-29T12:34:56.789Z"}"#);
        check(ValueRef::DateTime(0), r#"{"$date":{"$numberLong":"0"}}"#, r#"{"$date":"1970-01-01T00:00:00Z"}"#);
        check(ValueRef::DateTime(-1), r#"{"$date":{"$numberLong":"-1"}}"#, r#"{"$date":{"$numberLong":"-1"}}"#);
        let binary = ValueRef::Binary { subtype: 5, bytes: b"any!" };
        check(
            binary,
            r#"{"$binary":{"base64":"YW55IQ==","subType":"05"}}"#,
            r#"{"$binary":{"base64":"YW55IQ==","subType":"05"}}"#,
        );
        let stamp = Timestamp { seconds: 1, increment: 2 };
        check(stamp.into(), r#"{"$timestamp":{"t":1,"i":2}}"#, r#"{"$timestamp":{"t":1,"i":2}}"#);
        let scope = DocBuf::new().with("x", "y");
        let scoped = ValueRef::JavaScriptWithScope { code: "f()", scope: scope.as_doc() };
        check(scoped, r#"{"$code":"f()","$scope":{"x":"y"}}"#, r#"{"$code":"f()","$scope":{"x":"y"}}"#);
        let array: ArrayBuf = [ValueRef::Null, ValueRef::Bool(true), ValueRef::MinKey].into_iter().collect();
        let doc = DocBuf::new().with("a", &array).with("b", DocBuf::new().as_doc());
        check((&doc).into(), r#"{"a":[null,true,{"$minKey":1}],"b":{}}"#, r#"{"a":[null,true,{"$minKey":1}],"b":{}}"#);
    }
}
