//! One BSON value, borrowed ([`ValueRef`]) or owned ([`Value`]).

use crate::{Array, ArrayBuf, Doc, DocBuf};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 12]);

/// Seconds and an ordinal within the second; compares as the 64-bit number it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    pub seconds: u32,
    pub increment: u32,
}

/// IEEE 754-2008 decimal128 (binary integer decimal), as the 16 little-endian bytes of BSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal128(pub [u8; 16]);

/// BSON element types with their wire bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    Double = 0x01,
    String = 0x02,
    Document = 0x03,
    Array = 0x04,
    Binary = 0x05,
    Undefined = 0x06,
    ObjectId = 0x07,
    Bool = 0x08,
    DateTime = 0x09,
    Null = 0x0A,
    Regex = 0x0B,
    DbPointer = 0x0C,
    JavaScript = 0x0D,
    Symbol = 0x0E,
    JavaScriptWithScope = 0x0F,
    Int32 = 0x10,
    Timestamp = 0x11,
    Int64 = 0x12,
    Decimal128 = 0x13,
    MaxKey = 0x7F,
    MinKey = 0xFF,
}

/// A value read in place.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    Double(f64),
    String(&'a str),
    Document(Doc<'a>),
    Array(Array<'a>),
    Binary {
        subtype: u8,
        bytes: &'a [u8],
    },
    Undefined,
    ObjectId(ObjectId),
    Bool(bool),
    /// Milliseconds since 1970-01-01T00:00:00Z.
    DateTime(i64),
    Null,
    Regex {
        pattern: &'a str,
        options: &'a str,
    },
    DbPointer {
        namespace: &'a str,
        id: ObjectId,
    },
    JavaScript(&'a str),
    Symbol(&'a str),
    JavaScriptWithScope {
        code: &'a str,
        scope: Doc<'a>,
    },
    Int32(i32),
    Timestamp(Timestamp),
    Int64(i64),
    Decimal128(Decimal128),
    MinKey,
    MaxKey,
}

/// A value of its own.
#[derive(Clone, Debug)]
pub enum Value {
    Double(f64),
    String(String),
    Document(DocBuf),
    Array(ArrayBuf),
    Binary { subtype: u8, bytes: Vec<u8> },
    Undefined,
    ObjectId(ObjectId),
    Bool(bool),
    DateTime(i64),
    Null,
    Regex { pattern: String, options: String },
    DbPointer { namespace: String, id: ObjectId },
    JavaScript(String),
    Symbol(String),
    JavaScriptWithScope { code: String, scope: DocBuf },
    Int32(i32),
    Timestamp(Timestamp),
    Int64(i64),
    Decimal128(Decimal128),
    MinKey,
    MaxKey,
}

impl ValueRef<'_> {
    pub fn ty(&self) -> Type {
        match self {
            ValueRef::Double(_) => Type::Double,
            ValueRef::String(_) => Type::String,
            ValueRef::Document(_) => Type::Document,
            ValueRef::Array(_) => Type::Array,
            ValueRef::Binary { .. } => Type::Binary,
            ValueRef::Undefined => Type::Undefined,
            ValueRef::ObjectId(_) => Type::ObjectId,
            ValueRef::Bool(_) => Type::Bool,
            ValueRef::DateTime(_) => Type::DateTime,
            ValueRef::Null => Type::Null,
            ValueRef::Regex { .. } => Type::Regex,
            ValueRef::DbPointer { .. } => Type::DbPointer,
            ValueRef::JavaScript(_) => Type::JavaScript,
            ValueRef::Symbol(_) => Type::Symbol,
            ValueRef::JavaScriptWithScope { .. } => Type::JavaScriptWithScope,
            ValueRef::Int32(_) => Type::Int32,
            ValueRef::Timestamp(_) => Type::Timestamp,
            ValueRef::Int64(_) => Type::Int64,
            ValueRef::Decimal128(_) => Type::Decimal128,
            ValueRef::MinKey => Type::MinKey,
            ValueRef::MaxKey => Type::MaxKey,
        }
    }

    /// Bytes of texts, documents and binary data in it: what it takes to go over it.
    pub fn content_bytes(&self) -> usize {
        match self {
            ValueRef::String(text) | ValueRef::JavaScript(text) | ValueRef::Symbol(text) => text.len(),
            ValueRef::Document(doc) => doc.as_bytes().len(),
            ValueRef::Array(array) => array.as_bytes().len(),
            ValueRef::Binary { bytes, .. } => bytes.len(),
            ValueRef::Regex { pattern, options } => pattern.len() + options.len(),
            ValueRef::DbPointer { namespace, .. } => namespace.len(),
            ValueRef::JavaScriptWithScope { code, scope } => code.len() + scope.as_bytes().len(),
            _ => 0,
        }
    }

    pub fn to_value(self) -> Value {
        match self {
            ValueRef::Double(v) => Value::Double(v),
            ValueRef::String(v) => Value::String(v.to_owned()),
            ValueRef::Document(v) => Value::Document(v.to_buf()),
            ValueRef::Array(v) => Value::Array(v.to_buf()),
            ValueRef::Binary { subtype, bytes } => Value::Binary { subtype, bytes: bytes.to_vec() },
            ValueRef::Undefined => Value::Undefined,
            ValueRef::ObjectId(v) => Value::ObjectId(v),
            ValueRef::Bool(v) => Value::Bool(v),
            ValueRef::DateTime(v) => Value::DateTime(v),
            ValueRef::Null => Value::Null,
            ValueRef::Regex { pattern, options } => {
                Value::Regex { pattern: pattern.to_owned(), options: options.to_owned() }
            }
            ValueRef::DbPointer { namespace, id } => Value::DbPointer { namespace: namespace.to_owned(), id },
            ValueRef::JavaScript(v) => Value::JavaScript(v.to_owned()),
            ValueRef::Symbol(v) => Value::Symbol(v.to_owned()),
            ValueRef::JavaScriptWithScope { code, scope } => {
                Value::JavaScriptWithScope { code: code.to_owned(), scope: scope.to_buf() }
            }
            ValueRef::Int32(v) => Value::Int32(v),
            ValueRef::Timestamp(v) => Value::Timestamp(v),
            ValueRef::Int64(v) => Value::Int64(v),
            ValueRef::Decimal128(v) => Value::Decimal128(v),
            ValueRef::MinKey => Value::MinKey,
            ValueRef::MaxKey => Value::MaxKey,
        }
    }
}

impl Value {
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Double(v) => ValueRef::Double(*v),
            Value::String(v) => ValueRef::String(v),
            Value::Document(v) => ValueRef::Document(v.as_doc()),
            Value::Array(v) => ValueRef::Array(v.as_array()),
            Value::Binary { subtype, bytes } => ValueRef::Binary { subtype: *subtype, bytes },
            Value::Undefined => ValueRef::Undefined,
            Value::ObjectId(v) => ValueRef::ObjectId(*v),
            Value::Bool(v) => ValueRef::Bool(*v),
            Value::DateTime(v) => ValueRef::DateTime(*v),
            Value::Null => ValueRef::Null,
            Value::Regex { pattern, options } => ValueRef::Regex { pattern, options },
            Value::DbPointer { namespace, id } => ValueRef::DbPointer { namespace, id: *id },
            Value::JavaScript(v) => ValueRef::JavaScript(v),
            Value::Symbol(v) => ValueRef::Symbol(v),
            Value::JavaScriptWithScope { code, scope } => ValueRef::JavaScriptWithScope { code, scope: scope.as_doc() },
            Value::Int32(v) => ValueRef::Int32(*v),
            Value::Timestamp(v) => ValueRef::Timestamp(*v),
            Value::Int64(v) => ValueRef::Int64(*v),
            Value::Decimal128(v) => ValueRef::Decimal128(*v),
            Value::MinKey => ValueRef::MinKey,
            Value::MaxKey => ValueRef::MaxKey,
        }
    }
}

macro_rules! into_value {
    ($($from:ty => $variant:ident),* $(,)?) => { $(
        impl From<$from> for Value {
            fn from(v: $from) -> Value { Value::$variant(v.into()) }
        }
    )* };
}
into_value!(f64 => Double, &str => String, String => String, DocBuf => Document, ArrayBuf => Array, bool => Bool,
    i32 => Int32, i64 => Int64, ObjectId => ObjectId, Timestamp => Timestamp, Decimal128 => Decimal128);

macro_rules! into_value_ref {
    ($($from:ty => $variant:ident),* $(,)?) => { $(
        impl<'a> From<$from> for ValueRef<'a> {
            fn from(v: $from) -> ValueRef<'a> { ValueRef::$variant(v) }
        }
    )* };
}
into_value_ref!(f64 => Double, &'a str => String, Doc<'a> => Document, Array<'a> => Array, bool => Bool, i32 => Int32,
    i64 => Int64, ObjectId => ObjectId, Timestamp => Timestamp, Decimal128 => Decimal128);

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(v: &'a Value) -> ValueRef<'a> {
        v.as_ref()
    }
}
impl<'a> From<&'a DocBuf> for ValueRef<'a> {
    fn from(v: &'a DocBuf) -> ValueRef<'a> {
        ValueRef::Document(v.as_doc())
    }
}
impl<'a> From<&'a ArrayBuf> for ValueRef<'a> {
    fn from(v: &'a ArrayBuf) -> ValueRef<'a> {
        ValueRef::Array(v.as_array())
    }
}
impl<'a> From<&'a String> for ValueRef<'a> {
    fn from(v: &'a String) -> ValueRef<'a> {
        ValueRef::String(v)
    }
}

impl std::fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
