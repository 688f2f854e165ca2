//! Generators of the keys of a document in an index.

use std::sync::Arc;

use arbor_bson::Doc;
use arbor_lang::Collation;

use crate::index::keys::{Keys, keys};
use crate::{Direction, GeoKeys, KeyField, Result, TextKeys, Wildcard};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyGenerator {
    /// One component per field of the pattern.
    #[default]
    Fields,
    /// A path and its value, for every path in scope.
    Wildcard(Arc<Wildcard>),
    /// One component per field, with the cells of places.
    Geo(Arc<GeoKeys>),
    /// The fields before the text, and a term.
    Text(Arc<TextKeys>),
}

impl KeyGenerator {
    /// The directions of a key's components.
    pub fn descending(&self, pattern: &[KeyField]) -> Vec<bool> {
        match self {
            KeyGenerator::Fields | KeyGenerator::Geo(_) => {
                pattern.iter().map(|field| field.direction == Direction::Descending).collect()
            }
            KeyGenerator::Wildcard(wildcard) => wildcard.descending(),
            KeyGenerator::Text(_) => TextKeys::descending(pattern),
        }
    }

    pub(crate) fn keys(&self, pattern: &[KeyField], sparse: bool, collation: &Collation, doc: Doc<'_>) -> Result<Keys> {
        match self {
            KeyGenerator::Fields => keys(pattern, sparse, collation, doc),
            KeyGenerator::Wildcard(wildcard) => wildcard.keys(collation, doc),
            KeyGenerator::Geo(geo) => geo.keys(pattern, collation, doc),
            KeyGenerator::Text(text) => text.keys(pattern, doc),
        }
    }

    /// Returns true if the keys come from the fields of the pattern alone.
    pub fn is_fields(&self) -> bool {
        matches!(self, KeyGenerator::Fields)
    }

    pub fn wildcard(&self) -> Option<&Arc<Wildcard>> {
        match self {
            KeyGenerator::Wildcard(wildcard) => Some(wildcard),
            _ => None,
        }
    }

    pub fn geo(&self) -> Option<&Arc<GeoKeys>> {
        match self {
            KeyGenerator::Geo(geo) => Some(geo),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&Arc<TextKeys>> {
        match self {
            KeyGenerator::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the type bits of an entry, given what is stored in their place.
    pub(crate) fn type_bits<'e>(&self, stored: &'e [u8]) -> &'e [u8] {
        if self.text().is_some() { &[] } else { stored }
    }

    /// The top-level fields that keys come from. None: any field.
    pub(crate) fn sources<'i>(&'i self, pattern: &'i [KeyField]) -> Option<Vec<&'i str>> {
        match self {
            KeyGenerator::Fields | KeyGenerator::Geo(_) => {
                Some(pattern.iter().map(|field| field.path.split('.').next().unwrap_or_default()).collect())
            }
            KeyGenerator::Wildcard(_) => None,
            KeyGenerator::Text(text) => Some(text.sources()?.iter().map(String::as_str).collect()),
        }
    }
}
