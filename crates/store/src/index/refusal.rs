//! Errors of index specifications, and helpers to read them.

use arbor_bson::{Doc, ValueRef};

use crate::{Error, IndexProblem, Result};

/// Returns the error of an invalid index.
pub(crate) fn problem<T>(kind: IndexProblem, reason: impl Into<String>) -> Result<T> {
    Err(Error::Index { kind, reason: reason.into() })
}

/// Like `problem`, for a specification from which no index can be created.
pub(crate) fn cannot<T>(reason: impl Into<String>) -> Result<T> {
    problem(IndexProblem::CannotCreate, reason)
}

/// Like `problem`, for a feature that this release does not have.
pub(crate) fn refused<T>(what: &str) -> Result<T> {
    problem(IndexProblem::NotImplemented, format!("{what} is not supported by this release"))
}

/// As MongoDB's error texts show documents.
pub(crate) fn shown(doc: Doc<'_>) -> String {
    arbor_lang::text::cut(arbor_bson::display::shell(ValueRef::Document(doc)))
}

/// Returns a number of any type.
pub(crate) fn number(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Int32(n) => Some(f64::from(n)),
        ValueRef::Int64(n) => Some(n as f64),
        ValueRef::Double(n) => Some(n),
        ValueRef::Decimal128(n) => n.to_string().parse().ok(),
        _ => None,
    }
}

/// Returns the name of a value's type in error texts.
pub(crate) fn type_name(value: ValueRef<'_>) -> &'static str {
    use arbor_bson::Type::*;
    match value.ty() {
        Double => "double",
        String => "string",
        Document => "object",
        Array => "array",
        Binary => "binData",
        Undefined => "undefined",
        ObjectId => "objectId",
        Bool => "bool",
        DateTime => "date",
        Null => "null",
        Regex => "regex",
        DbPointer => "dbPointer",
        JavaScript => "javascript",
        Symbol => "symbol",
        JavaScriptWithScope => "javascriptWithScope",
        Int32 => "int",
        Timestamp => "timestamp",
        Int64 => "long",
        Decimal128 => "decimal",
        MinKey => "minKey",
        MaxKey => "maxKey",
    }
}
