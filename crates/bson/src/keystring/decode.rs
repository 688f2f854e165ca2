//! From keys back to values.

use super::{END, class, code, number, reader::Reader, types::TypeReader};
use crate::{ArrayBuf, DocBuf, Error, ObjectId, Timestamp, Value, canonical_type};

/// Deeper than any stored document, so that bytes that are no key cannot make the decoder build without end.
const DEPTH_MAX: usize = 250;

/// Reads the components of a key one after the other.
#[derive(Clone)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    types: TypeReader<'a>,
}

/// All values of a key; `descending` has one flag per component.
pub fn decode(bytes: &[u8], type_bits: &[u8], descending: &[bool]) -> Result<Vec<Value>, Error> {
    let mut decoder = Decoder::new(bytes, type_bits);
    let values = descending.iter().map(|descending| decoder.next(*descending)).collect::<Result<_, _>>()?;
    if decoder.rest().is_empty() { Ok(values) } else { Err(Error::BadKey("bytes follow the last component")) }
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8], type_bits: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, types: TypeReader(type_bits) }
    }

    /// Returns the bytes that are not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn next(&mut self, descending: bool) -> Result<Value, Error> {
        let mut reader = Reader::new(self.bytes, descending);
        let value = component(&mut reader, &mut self.types)?;
        self.bytes = reader.rest();
        Ok(value)
    }
}

/// A nested value that is being built, and the name of its element that is being read.
enum Open {
    Document(DocBuf, String),
    Array(ArrayBuf),
    Scope { code: String, scope: DocBuf, name: String },
}

enum Head {
    Whole(Value),
    Open(Open),
}

impl Open {
    /// Reads up to the next value inside; false at the end.
    fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<u8>, Error> {
        if reader.peek()? == END {
            reader.byte()?;
            return Ok(None);
        }
        match self {
            Open::Array(_) => Ok(Some(0)),
            Open::Document(_, name) | Open::Scope { name, .. } => {
                let canonical = reader.byte()?;
                *name = reader.c_text()?;
                Ok(Some(canonical))
            }
        }
    }

    fn add(&mut self, value: &Value) {
        match self {
            Open::Array(array) => drop(array.push(value)),
            Open::Document(doc, name) | Open::Scope { scope: doc, name, .. } => drop(doc.append(name, value)),
        }
    }

    fn close(self) -> Value {
        match self {
            Open::Document(doc, _) => Value::Document(doc),
            Open::Array(array) => Value::Array(array),
            Open::Scope { code, scope, .. } => Value::JavaScriptWithScope { code, scope },
        }
    }
}

fn component(reader: &mut Reader<'_>, types: &mut TypeReader<'_>) -> Result<Value, Error> {
    let mut open = match head(reader, types)? {
        Head::Whole(value) => return Ok(value),
        Head::Open(outermost) => vec![outermost],
    };
    while let Some(mut innermost) = open.pop() {
        let Some(canonical) = innermost.next(reader)? else {
            let value = innermost.close();
            match open.last_mut() {
                Some(parent) => parent.add(&value),
                None => return Ok(value),
            }
            continue;
        };
        let inner = head(reader, types)?;
        let named = !matches!(innermost, Open::Array(_));
        if named && inner.canonical() != canonical {
            return Err(Error::BadKey("an element's type is not its value's"));
        }
        match inner {
            Head::Whole(value) => {
                innermost.add(&value);
                open.push(innermost);
            }
            Head::Open(_) if open.len() + 2 > DEPTH_MAX => return Err(Error::TooDeep { max: DEPTH_MAX }),
            Head::Open(inner) => open.extend([innermost, inner]),
        }
    }
    Err(Error::BadKey("nothing is open"))
}

impl Head {
    fn canonical(&self) -> u8 {
        match self {
            Head::Whole(value) => canonical_type(value.as_ref()),
            Head::Open(Open::Document(..)) => crate::canonical::DOCUMENT,
            Head::Open(Open::Array(_)) => crate::canonical::ARRAY,
            Head::Open(Open::Scope { .. }) => crate::canonical::JAVASCRIPT_WITH_SCOPE,
        }
    }
}

/// A whole scalar, or the head of a nested value.
fn head(reader: &mut Reader<'_>, types: &mut TypeReader<'_>) -> Result<Head, Error> {
    Ok(Head::Whole(match reader.byte()? {
        class if number::is_number(class) => number::read(reader, types, class)?,
        class::MIN_KEY => Value::MinKey,
        class::UNDEFINED => Value::Undefined,
        class::NULL => Value::Null,
        class::FALSE => Value::Bool(false),
        class::TRUE => Value::Bool(true),
        class::MAX_KEY => Value::MaxKey,
        class::STRING => match types.code() {
            code::SYMBOL => Value::Symbol(reader.text()?),
            _ => Value::String(reader.text()?),
        },
        class::JAVASCRIPT => Value::JavaScript(reader.text()?),
        class::BINARY => {
            let len = reader.binary_len()?;
            let subtype = reader.byte()?;
            Value::Binary { subtype, bytes: reader.bytes(len)? }
        }
        class::OBJECT_ID => Value::ObjectId(ObjectId(reader.array()?)),
        class::DATE_TIME => Value::DateTime((u64::from_be_bytes(reader.array()?) ^ 1 << 63) as i64),
        class::TIMESTAMP => Value::Timestamp(Timestamp {
            seconds: u32::from_be_bytes(reader.array()?),
            increment: u32::from_be_bytes(reader.array()?),
        }),
        class::REGEX => Value::Regex { pattern: reader.c_text()?, options: reader.c_text()? },
        class::DB_POINTER => {
            let len = reader.u32()?;
            let namespace = String::from_utf8(reader.bytes(len)?).map_err(|_| Error::BadKey("text is not UTF-8"))?;
            Value::DbPointer { namespace, id: ObjectId(reader.array()?) }
        }
        class::DOCUMENT => return Ok(Head::Open(Open::Document(DocBuf::new(), String::new()))),
        class::ARRAY => return Ok(Head::Open(Open::Array(ArrayBuf::new()))),
        class::JAVASCRIPT_WITH_SCOPE => {
            let code = reader.text()?;
            return Ok(Head::Open(Open::Scope { code, scope: DocBuf::new(), name: String::new() }));
        }
        _ => return Err(Error::BadKey("unknown class")),
    }))
}
