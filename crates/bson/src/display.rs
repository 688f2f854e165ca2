//! Values as MongoDB writes them into messages: `{ a: 1, b: "x" }`.

use std::fmt::{self, Display, Write};

use crate::{Doc, Elements, ValueRef};

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

/// A document or an array that is being written.
struct Open<'a> {
    elements: Elements<'a>,
    named: bool,
    is_empty: bool,
    /// Text behind its closing bracket.
    behind: &'static str,
}

impl<'a> Open<'a> {
    fn new(doc: Doc<'a>, named: bool, behind: &'static str) -> Open<'a> {
        Open { elements: doc.iter(), named, is_empty: true, behind }
    }

    fn write_begin(&mut self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let first = std::mem::replace(&mut self.is_empty, false);
        f.write_str(match (first, self.named) {
            (true, true) => "{ ",
            (true, false) => "[ ",
            (false, _) => ", ",
        })?;
        if self.named { write!(f, "{name}: ") } else { Ok(()) }
    }

    fn write_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.is_empty, self.named) {
            (true, true) => "{}",
            (true, false) => "[]",
            (false, true) => " }",
            (false, false) => " ]",
        })?;
        f.write_str(self.behind)
    }
}

fn write_doc(f: &mut fmt::Formatter<'_>, doc: Doc<'_>) -> fmt::Result {
    write_value(f, ValueRef::Document(doc))
}

/// Walks with a stack on the heap, whatever the depth.
fn write_value(f: &mut fmt::Formatter<'_>, value: ValueRef<'_>) -> fmt::Result {
    let mut open: Vec<Open<'_>> = write_head(f, value)?.into_iter().collect();
    while let Some(innermost) = open.last_mut() {
        match innermost.elements.next() {
            Some((name, value)) => {
                innermost.write_begin(f, name)?;
                open.extend(write_head(f, value)?);
            }
            None => {
                innermost.write_end(f)?;
                open.pop();
            }
        }
    }
    Ok(())
}

/// Writes a scalar; returns what is to be written of a value with elements.
fn write_head<'a>(f: &mut fmt::Formatter<'_>, value: ValueRef<'a>) -> Result<Option<Open<'a>>, fmt::Error> {
    match value {
        ValueRef::Document(doc) => Ok(Some(Open::new(doc, true, ""))),
        ValueRef::Array(array) => Ok(Some(Open::new(array.as_doc(), false, ""))),
        ValueRef::JavaScriptWithScope { code, scope } => {
            write!(f, "CodeWScope( {code}, ")?;
            Ok(Some(Open::new(scope, true, ")")))
        }
        scalar => write_scalar(f, scalar).map(|()| None),
    }
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

/// Requires a value without elements.
fn write_scalar(f: &mut fmt::Formatter<'_>, value: ValueRef<'_>) -> fmt::Result {
    match value {
        ValueRef::Double(v) if v.is_nan() => f.write_str("nan.0"),
        ValueRef::Double(v) if v.is_infinite() => f.write_str(if v < 0.0 { "-inf.0" } else { "inf.0" }),
        ValueRef::Double(v) => write!(f, "{v:?}"),
        ValueRef::String(v) | ValueRef::Symbol(v) => write_quoted(f, v, char::is_control),
        ValueRef::Binary { subtype, bytes } => write_binary(f, subtype, bytes),
        ValueRef::Undefined => f.write_str("undefined"),
        ValueRef::ObjectId(v) => write!(f, "ObjectId('{v}')"),
        ValueRef::Bool(v) => write!(f, "{v}"),
        ValueRef::DateTime(v) => write!(f, "new Date({v})"),
        ValueRef::Null => f.write_str("null"),
        ValueRef::Regex { pattern, options } => write!(f, "/{pattern}/{options}"),
        ValueRef::DbPointer { namespace, id } => write!(f, "DBRef('{namespace}',{id})"),
        ValueRef::JavaScript(v) => f.write_str(v),
        ValueRef::Document(_) | ValueRef::Array(_) | ValueRef::JavaScriptWithScope { .. } => Ok(()),
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
    use crate::{Array, ArrayBuf, DocBuf, ObjectId};

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
        let scoped = ValueRef::JavaScriptWithScope { code: "f()", scope: Doc::empty() };
        let nested: ArrayBuf = [scoped, Array::empty().into(), Doc::empty().into()].into_iter().collect();
        assert_eq!(shell((&nested).into()).to_string(), "[ CodeWScope( f(), {}), [], {} ]");
        assert_eq!(shell("\n\u{1}\u{7f}\u{9f}".into()).to_string(), r#""\n\u0001\u007f\u009f""#);
    }
}
