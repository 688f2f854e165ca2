//! How the keys of a document come about in an index.

use std::sync::Arc;

use arbor_bson::Doc;
use arbor_lang::Collation;

use crate::index_keys::{Keys, keys};
use crate::{Direction, GeoKeys, KeyField, Result, Wildcard};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyGenerator {
    /// One component per field of the pattern.
    #[default]
    Fields,
    /// A path and its value, for every path in scope.
    Wildcard(Arc<Wildcard>),
    /// One component per field, with the cells of places.
    Geo(Arc<GeoKeys>),
}

impl KeyGenerator {
    /// The directions of a key's components.
    pub fn descending(&self, pattern: &[KeyField]) -> Vec<bool> {
        match self {
            KeyGenerator::Fields | KeyGenerator::Geo(_) => {
                pattern.iter().map(|field| field.direction == Direction::Descending).collect()
            }
            KeyGenerator::Wildcard(wildcard) => wildcard.descending(),
        }
    }

    pub(crate) fn keys(&self, pattern: &[KeyField], sparse: bool, collation: &Collation, doc: Doc<'_>) -> Result<Keys> {
        match self {
            KeyGenerator::Fields => keys(pattern, sparse, collation, doc),
            KeyGenerator::Wildcard(wildcard) => wildcard.keys(collation, doc),
            KeyGenerator::Geo(geo) => geo.keys(pattern, collation, doc),
        }
    }

    /// Whether the keys come from the fields of the pattern alone.
    pub fn is_fields(&self) -> bool {
        matches!(self, KeyGenerator::Fields)
    }

    pub fn wildcard(&self) -> Option<&Arc<Wildcard>> {
        match self {
            KeyGenerator::Wildcard(wildcard) => Some(wildcard),
            KeyGenerator::Fields | KeyGenerator::Geo(_) => None,
        }
    }

    pub fn geo(&self) -> Option<&Arc<GeoKeys>> {
        match self {
            KeyGenerator::Geo(geo) => Some(geo),
            KeyGenerator::Fields | KeyGenerator::Wildcard(_) => None,
        }
    }
}
