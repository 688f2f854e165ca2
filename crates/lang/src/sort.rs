//! Sort patterns and sort keys.

use std::cmp::Ordering;

use arbor_bson::Doc;

use crate::{Error, Path, Result};

/// `{ a: 1, "b.c": -1 }`.
#[derive(Clone, Debug)]
pub struct SortPattern {
    parts: Vec<SortPart>,
}

/// One field of a sort pattern.
#[derive(Clone, Debug)]
pub struct SortPart {
    pub path: Path,
    pub descending: bool,
}

impl SortPattern {
    pub fn parse(_pattern: Doc) -> Result<SortPattern> {
        Err(Error::not_implemented("sort"))
    }

    pub fn parts(&self) -> &[SortPart] {
        &self.parts
    }

    /// Bytes whose order is the order of the documents. An array sorts by its smallest element ascending and by its
    /// largest descending, a missing field as null.
    pub fn key(&self, _doc: Doc) -> Result<Vec<u8>> {
        Err(Error::not_implemented("sort"))
    }

    /// The order of two documents by this pattern, without building keys.
    pub fn compare(&self, _a: Doc, _b: Doc) -> Ordering {
        Ordering::Equal
    }
}
