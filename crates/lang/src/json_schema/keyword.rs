//! One keyword of a schema as the document has it, and MongoDB's errors for invalid values.

use std::collections::HashSet;

use arbor_bson::{Array, Doc, ValueRef};

use crate::stop::tick;
use crate::{Error, Result, number, text};

#[derive(Clone, Copy)]
pub(super) struct Keyword<'k> {
    pub name: &'static str,
    pub value: ValueRef<'k>,
}

impl<'k> Keyword<'k> {
    pub(super) fn mistyped(self, what: &str) -> Error {
        Error::type_mismatch(format!("$jsonSchema keyword '{}' {what}", self.name))
    }

    pub(super) fn wrong(self, what: &str) -> Error {
        Error::failed_to_parse(format!("$jsonSchema keyword '{}' {what}", self.name))
    }

    pub(super) fn object(self) -> Result<Doc<'k>> {
        match self.value {
            ValueRef::Document(doc) => Ok(doc),
            _ => Err(self.mistyped("must be an object")),
        }
    }

    pub(super) fn array(self) -> Result<Array<'k>> {
        match self.value {
            ValueRef::Array(array) => Ok(array),
            other => {
                let found = text::type_name(Some(other));
                Err(self.mistyped(&format!("must be an array, but found an element of type {found}")))
            }
        }
    }

    pub(super) fn filled_array(self) -> Result<Array<'k>> {
        match self.array()? {
            array if array.is_empty() => Err(self.wrong("cannot be an empty array")),
            array => Ok(array),
        }
    }

    /// Strings, at least one and none twice.
    pub(super) fn names(self) -> Result<Vec<String>> {
        let array = self.filled_array()?;
        // a set that grows hashes all of its names again, which nothing can interrupt
        let (mut names, mut known) = (Vec::new(), HashSet::with_capacity(array.len()));
        for value in array.iter() {
            let ValueRef::String(name) = value else {
                let found = text::type_name(Some(value));
                return Err(
                    self.mistyped(&format!("must be an array of strings, but found an element of type: {found}"))
                );
            };
            tick()?;
            if !known.insert(name) {
                return Err(self.wrong("array cannot contain duplicate values"));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    pub(super) fn string(self) -> Result<&'k str> {
        match self.value {
            ValueRef::String(value) => Ok(value),
            _ => Err(self.mistyped("must be a string")),
        }
    }

    pub(super) fn boolean(self) -> Result<bool> {
        match self.value {
            ValueRef::Bool(value) => Ok(value),
            _ => Err(self.mistyped("must be a boolean")),
        }
    }

    pub(super) fn number(self) -> Result<ValueRef<'k>> {
        match number::is_number(self.value) {
            true => Ok(self.value),
            false => Err(self.mistyped("must be a number")),
        }
    }

    /// A whole number that is not below zero.
    pub(super) fn count(self) -> Result<u64> {
        if !number::is_number(self.value) {
            return Err(self.wrong("must be a number"));
        }
        let found = number::exact_i64(self.value);
        let whole = found.ok_or_else(|| self.wrong("must be representable as a 64-bit integer"))?;
        u64::try_from(whole).map_err(|_| self.wrong("must be a non-negative integer"))
    }
}
