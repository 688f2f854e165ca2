//! The result of an expression.

use arbor_bson::{Value, ValueRef};

use crate::{Collation, Error, Result, depth, number};

/// The bytes from which on a text is no value.
pub(super) const STRING_BYTES_MAX: usize = 16 << 20;

/// Refuses a text that is too long for a value.
pub(super) fn check_text(text: &str) -> Result<()> {
    if text.len() < STRING_BYTES_MAX {
        return Ok(());
    }
    Err(Error::location(16493, "Tried to create string longer than 16MB"))
}

/// A value, borrowed from a document or an expression if possible, or nothing.
#[derive(Clone, Debug)]
pub enum Evaluated<'a> {
    Missing,
    Borrowed(ValueRef<'a>),
    Owned(Value),
}

impl<'a> Evaluated<'a> {
    pub fn null() -> Evaluated<'a> {
        Evaluated::Borrowed(ValueRef::Null)
    }

    pub fn borrowed(value: &'a Value) -> Evaluated<'a> {
        Evaluated::Borrowed(value.as_ref())
    }

    pub fn get(&self) -> Option<ValueRef<'_>> {
        match self {
            Evaluated::Missing => None,
            Evaluated::Borrowed(value) => Some(*value),
            Evaluated::Owned(value) => Some(value.as_ref()),
        }
    }

    /// The value, null for none.
    pub fn or_null(&self) -> ValueRef<'_> {
        self.get().unwrap_or(ValueRef::Null)
    }

    pub fn into_value(self) -> Option<Value> {
        match self {
            Evaluated::Missing => None,
            Evaluated::Borrowed(value) => Some(value.to_value()),
            Evaluated::Owned(value) => Some(value),
        }
    }

    /// Bytes that were made for it and are not the document's or the expression's.
    pub fn made_bytes(&self) -> usize {
        match self {
            Evaluated::Owned(Value::Array(array)) => array.as_array().as_bytes().len(),
            Evaluated::Owned(Value::Document(doc)) => doc.as_bytes().len(),
            Evaluated::Owned(Value::String(text)) => text.len(),
            _ => 0,
        }
    }

    /// Refuses a text that was made for it and fits no document.
    #[inline]
    pub(super) fn check_text(&self) -> Result<()> {
        match self {
            Evaluated::Owned(Value::String(text)) => check_text(text),
            _ => Ok(()),
        }
    }

    /// Refuses a value that was made for it and nests too deeply; what is borrowed was checked before.
    #[inline]
    pub(super) fn check_depth(&self) -> Result<()> {
        match self {
            Evaluated::Owned(value) => depth::check_value(value.as_ref()),
            _ => Ok(()),
        }
    }

    /// Copies what is borrowed, so that the result has no lifetime.
    pub fn into_owned<'b>(self) -> Evaluated<'b> {
        self.into_value().map_or(Evaluated::Missing, Evaluated::Owned)
    }

    /// Returns true for missing, null and undefined, for which most operators return null.
    pub fn is_nullish(&self) -> bool {
        matches!(self.get(), None | Some(ValueRef::Null | ValueRef::Undefined))
    }

    /// Everything is true but false, zero, null, undefined and missing.
    pub fn is_true(&self) -> bool {
        self.get().is_some_and(is_true)
    }
}

/// A value as a condition.
pub fn is_true(value: ValueRef) -> bool {
    match value {
        ValueRef::Bool(v) => v,
        ValueRef::Null | ValueRef::Undefined => false,
        // the nearest double of a small decimal is zero
        ValueRef::Decimal128(v) => !v.is_zero(),
        other => number::to_f64(other).is_none_or(|v| v != 0.0),
    }
}

impl<T: Into<Value>> From<T> for Evaluated<'_> {
    fn from(value: T) -> Self {
        Evaluated::Owned(value.into())
    }
}

impl Evaluated<'_> {
    /// Compares two results; "missing" equals undefined, before null.
    pub fn compare(&self, other: &Evaluated<'_>, collation: &Collation) -> std::cmp::Ordering {
        let (a, b) = (self.get().unwrap_or(ValueRef::Undefined), other.get().unwrap_or(ValueRef::Undefined));
        collation.compare(a, b)
    }

    /// The alias of its type.
    pub fn type_name(&self) -> &'static str {
        crate::text::type_name(self.get())
    }
}
