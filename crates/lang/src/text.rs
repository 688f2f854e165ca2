//! Values in the texts of error messages: `{ a: 1, b: "x" }`.

use std::fmt::Write;

use arbor_bson::{Type, ValueRef};

use crate::{matcher::type_set, number};

/// A value as MongoDB writes it in an error text.
pub fn shell(value: ValueRef) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// `name: value`, as a field is written in an error text.
pub fn field(name: &str, value: ValueRef) -> String {
    format!("{name}: {}", shell(value))
}

/// The alias of a value's type, with "missing" for none.
pub fn type_name(value: Option<ValueRef>) -> &'static str {
    value.map_or("missing", |value| type_set::alias(value.ty()))
}

/// The alias of a type.
pub fn type_alias(ty: Type) -> &'static str {
    type_set::alias(ty)
}

/// A double as the shell prints it: six digits at least, `inf` and `nan` in words.
pub fn double(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value.is_nan() {
        return "nan".to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-5..1e17).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        return format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    format!("{value:?}")
}

fn write_value(out: &mut String, value: ValueRef) {
    let _ = match value {
        ValueRef::Double(v) => write!(out, "{}", double(v)),
        ValueRef::String(v) | ValueRef::Symbol(v) => write!(out, "\"{}\"", v.escape_debug()),
        ValueRef::Document(doc) => {
            return write_list(out, "{", "}", doc.iter().map(|(name, value)| (Some(name), value)));
        }
        ValueRef::Array(array) => return write_list(out, "[", "]", array.iter().map(|value| (None, value))),
        ValueRef::Binary { subtype, bytes } => {
            let _ = write!(out, "BinData({subtype}, ");
            for byte in bytes {
                let _ = write!(out, "{byte:02X}");
            }
            write!(out, ")")
        }
        ValueRef::Undefined => write!(out, "undefined"),
        ValueRef::ObjectId(v) => write!(out, "ObjectId('{v}')"),
        ValueRef::Bool(v) => write!(out, "{v}"),
        ValueRef::DateTime(v) => write!(out, "new Date({v})"),
        ValueRef::Null => write!(out, "null"),
        ValueRef::Regex { pattern, options } => write!(out, "/{pattern}/{options}"),
        ValueRef::DbPointer { namespace, id } => write!(out, "DBRef('{namespace}', {id})"),
        ValueRef::JavaScript(v) | ValueRef::JavaScriptWithScope { code: v, .. } => write!(out, "{v}"),
        ValueRef::Int32(v) => write!(out, "{v}"),
        ValueRef::Timestamp(v) => write!(out, "Timestamp({}, {})", v.seconds, v.increment),
        ValueRef::Int64(v) => write!(out, "{v}"),
        ValueRef::Decimal128(v) => write!(out, "{}", number::decimal_text(v)),
        ValueRef::MinKey => write!(out, "MinKey"),
        ValueRef::MaxKey => write!(out, "MaxKey"),
    };
}

fn write_list<'v>(
    out: &mut String,
    open: &str,
    close: &str,
    items: impl Iterator<Item = (Option<&'v str>, ValueRef<'v>)>,
) {
    out.push_str(open);
    let mut separator = " ";
    for (name, value) in items {
        out.push_str(separator);
        if let Some(name) = name {
            let _ = write!(out, "{name}: ");
        }
        write_value(out, value);
        separator = ", ";
    }
    out.push_str(if separator == " " { "" } else { " " });
    out.push_str(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::value;

    #[test]
    fn shell_form() {
        for (text, expect) in [
            ("{a: 1, b: ['x', 2.5, null]}", "{ a: 1, b: [ \"x\", 2.5, null ] }"),
            ("{}", "{}"),
            ("[]", "[]"),
            ("1.0", "1.0"),
            ("1e300", "1e+300"),
            ("Infinity", "inf"),
        ] {
            assert_eq!(shell(value(text).as_ref()), expect);
        }
    }
}
