//! Values as MongoDB writes them into messages: `{ a: 1, b: "x" }`.

use std::fmt::{self, Display, Write};

use crate::{Array, Doc, ValueRef};

/// Displays a value in the shell-like form.
pub fn shell(value: ValueRef<'_>) -> impl Display {
    fmt::from_fn(move |f| write_value(f, value))
}

/// Displays a document in the shell-like form.
pub fn shell_doc(doc: Doc<'_>) -> impl Display {
    fmt::from_fn(move |f| write_doc(f, doc))
}

impl Display for Doc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_doc(f, *self)
    }
}

impl Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, *self)
    }
}

fn write_doc(f: &mut fmt::Formatter<'_>, doc: Doc<'_>) -> fmt::Result {
    if doc.is_empty() {
        return f.write_str("{}");
    }
    f.write_str("{ ")?;
    for (i, (name, value)) in doc.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        write!(f, "{comma}{name}: ")?;
        write_value(f, value)?;
    }
    f.write_str(" }")
}

fn write_array(f: &mut fmt::Formatter<'_>, array: Array<'_>) -> fmt::Result {
    if array.is_empty() {
        return f.write_str("[]");
    }
    for (i, value) in array.iter().enumerate() {
        f.write_str(if i == 0 { "[ " } else { ", " })?;
        write_value(f, value)?;
    }
    f.write_str(" ]")
}

/// A text in quotes. `is_escaped`: which of the characters without a short form are written as `\u`.
pub(crate) fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str, is_escaped: fn(char) -> bool) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if is_escaped(c) => write!(f, "\\u{:04x}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

fn write_binary(f: &mut fmt::Formatter<'_>, subtype: u8, bytes: &[u8]) -> fmt::Result {
    if let (4, Ok(uuid)) = (subtype, <[u8; 16]>::try_from(bytes)) {
        f.write_str("UUID(\"")?;
        for (i, byte) in uuid.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        return f.write_str("\")");
    }
    write!(f, "BinData({subtype}, ")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
    f.write_char(')')
}

fn write_value(f: &mut fmt::Formatter<'_>, value: ValueRef<'_>) -> fmt::Result {
    match value {
        ValueRef::Double(v) if v.is_nan() => f.write_str("nan.0"),
        ValueRef::Double(v) if v.is_infinite() => f.write_str(if v < 0.0 { "-inf.0" } else { "inf.0" }),
        ValueRef::Double(v) => write!(f, "{v:?}"),
        ValueRef::String(v) | ValueRef::Symbol(v) => write_quoted(f, v, char::is_control),
        ValueRef::Document(v) => write_doc(f, v),
        ValueRef::Array(v) => write_array(f, v),
        ValueRef::Binary { subtype, bytes } => write_binary(f, subtype, bytes),
        ValueRef::Undefined => f.write_str("undefined"),
        ValueRef::ObjectId(v) => write!(f, "ObjectId('{v}')"),
        ValueRef::Bool(v) => write!(f, "{v}"),
        ValueRef::DateTime(v) => write!(f, "new Date({v})"),
        ValueRef::Null => f.write_str("null"),
        ValueRef::Regex { pattern, options } => write!(f, "/{pattern}/{options}"),
        ValueRef::DbPointer { namespace, id } => write!(f, "DBRef('{namespace}',{id})"),
        ValueRef::JavaScript(v) => f.write_str(v),
        ValueRef::JavaScriptWithScope { code, scope } => write!(f, "CodeWScope( {code}, {scope})"),
        ValueRef::Int32(v) => write!(f, "{v}"),
        ValueRef::Int64(v) => write!(f, "{v}"),
        ValueRef::Timestamp(v) => write!(f, "Timestamp({}, {})", v.seconds, v.increment),
        ValueRef::Decimal128(v) => write!(f, "{v}"),
        ValueRef::MinKey => f.write_str("MinKey"),
        ValueRef::MaxKey => f.write_str("MaxKey"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayBuf, DocBuf, ObjectId};

    #[test]
    fn as_messages_show_it() {
        let array: ArrayBuf = [ValueRef::Int32(1), ValueRef::Double(2.0), ValueRef::Null].into_iter().collect();
        let doc = DocBuf::new()
            .with("a", 1i32)
            .with("b", "x\"y")
            .with("c", 1.5)
            .with("d", &array)
            .with("e", ObjectId([0xAB; 12]))
            .with("f", DocBuf::new().as_doc())
            .with("g", ValueRef::DateTime(12))
            .with("h", ValueRef::Binary { subtype: 0, bytes: &[1, 0xAF] })
            .with("i", Array::empty());
        assert_eq!(
            shell_doc(doc.as_doc()).to_string(),
            "{ a: 1, b: \"x\\\"y\", c: 1.5, d: [ 1, 2.0, null ], e: ObjectId('abababababababababababab'), f: {}, \
             g: new Date(12), h: BinData(0, 01AF), i: [] }"
        );
        assert_eq!(shell(ValueRef::Bool(true)).to_string(), "true");
        assert_eq!(shell("\n\u{1}\u{7f}\u{9f}".into()).to_string(), r#""\n\u0001\u007f\u009f""#);
    }
}
