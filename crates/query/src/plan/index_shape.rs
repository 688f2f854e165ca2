//! An index as the planner sees it: the primary tree with its `_id` order, or a secondary index.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, DocBuf, Value, ValueRef};
use arbor_lang::{Collation, Filter};
use arbor_store::{Collection, Direction, FieldKind, GeoKeys, Index, PartialFilter};

use super::implication::implies;

#[derive(Clone, Debug)]
pub struct IndexShape {
    pub name: String,
    pub parts: Vec<IndexPart>,
    pub unique: bool,
    pub sparse: bool,
    /// Collation of its strings, which are stored as sort keys.
    pub collation: Collation,
    /// The filter of the documents that it holds; `None`: it holds all.
    pub partial: Option<Arc<PartialFilter>>,
    /// Its entries hold the documents.
    pub clustering: bool,
    /// Key generator of a geospatial index.
    pub geo: Option<Arc<GeoKeys>>,
    pub source: IndexSource,
}

/// Location of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexSource {
    /// The tree of records: its keys are the `_id`s and its values the documents.
    Records,
    /// The records in their natural order: that of insertion in a capped collection, else the same.
    Natural,
    /// Place in `Collection::indexes`.
    Secondary(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub struct IndexPart {
    pub path: String,
    pub kind: FieldKind,
    pub descending: bool,
    /// Bit `n`: some document has an array at component `n` of the path.
    pub arrays: u64,
}

impl IndexPart {
    /// The key holds the value itself.
    pub fn is_plain(&self) -> bool {
        self.kind == FieldKind::Plain
    }

    /// Returns a value stored in the index `shape` for this component, as clients see it.
    pub fn shown(&self, value: &Value, shape: &IndexShape) -> Value {
        if self.path == super::WILDCARD_PATH { value.clone() } else { shape.collation.shown(value) }
    }

    /// One document may have several keys.
    pub fn is_multikey(&self) -> bool {
        self.arrays != 0
    }

    /// Returns the prefixes of the path that lead to arrays, as explain shows them.
    pub fn array_paths(&self) -> ArrayBuf {
        let ends = self.path.match_indices('.').map(|(at, _)| at).chain([self.path.len()]);
        let paths = ends.enumerate().filter(|(name, _)| self.arrays.checked_shr(*name as u32).unwrap_or(0) & 1 == 1);
        paths.filter_map(|(_, end)| self.path.get(..end)).collect()
    }

    /// Returns true if there are arrays only at the first `components` names of the path.
    pub fn arrays_within(&self, components: usize) -> bool {
        self.arrays.checked_shr(components as u32).unwrap_or(0) == 0
    }

    /// Returns true if there are no arrays at the first `components` names of the path.
    pub fn arrays_after(&self, components: usize) -> bool {
        self.arrays.trailing_zeros() as usize >= components
    }
}

impl IndexShape {
    /// An index of all documents with nothing but its parts.
    pub fn plain(name: String, parts: Vec<IndexPart>) -> IndexShape {
        IndexShape {
            name,
            parts,
            unique: false,
            sparse: false,
            collation: Collation::simple(),
            partial: None,
            clustering: false,
            geo: None,
            source: IndexSource::Records,
        }
    }

    /// The records by their `_id`. Those of a clustered collection count as a clustering index.
    pub fn primary(collection: &Collection) -> IndexShape {
        let part = IndexPart { path: "_id".to_owned(), kind: FieldKind::Plain, descending: false, arrays: 0 };
        IndexShape {
            name: collection.id_index_name().to_owned(),
            parts: vec![part],
            unique: true,
            sparse: false,
            collation: collection.collation.clone(),
            partial: None,
            clustering: collection.clustered_index().is_some(),
            geo: None,
            source: IndexSource::Records,
        }
    }

    /// Those that queries may use. Requires that the snapshot that is going to be read is taken already: arrays may come
    /// with any commit.
    pub fn of(collection: &Collection) -> Vec<IndexShape> {
        IndexShape::those(collection, |index| !index.hidden)
    }

    /// Hidden ones too.
    pub fn all(collection: &Collection) -> Vec<IndexShape> {
        IndexShape::those(collection, |_| true)
    }

    fn those(collection: &Collection, accepts: impl Fn(&Index) -> bool) -> Vec<IndexShape> {
        let secondary = collection.indexes.iter().enumerate();
        // other indexes have no order of their own, see [`super::wildcard`]
        let secondary = secondary
            .filter(|(_, index)| (index.generator.is_fields() || index.generator.geo().is_some()) && accepts(index));
        std::iter::once(IndexShape::primary(collection))
            .chain(secondary.map(|(at, index)| IndexShape::of_index(at, index)))
            .collect()
    }

    /// Returns the shape of one index of any kind.
    pub fn of_index(at: usize, index: &Index) -> IndexShape {
        let part = |(field, key): (usize, &arbor_store::KeyField)| IndexPart {
            path: key.path.clone(),
            kind: key.kind,
            descending: key.direction == Direction::Descending,
            arrays: index.multikey_components(field),
        };
        IndexShape {
            name: index.name.clone(),
            parts: index.key_pattern.iter().enumerate().map(part).collect(),
            unique: index.unique,
            sparse: index.sparse || index.generator.geo().is_some(),
            collation: index.collation.clone(),
            partial: index.partial.clone(),
            clustering: index.clustering,
            geo: index.generator.geo().cloned(),
            source: IndexSource::Secondary(at),
        }
    }

    pub fn is_multikey(&self) -> bool {
        self.parts.iter().any(IndexPart::is_multikey)
    }

    pub fn descending(&self) -> Vec<bool> {
        self.parts.iter().map(|part| part.descending).collect()
    }

    pub fn key_pattern(&self) -> DocBuf {
        let shown = |part: &IndexPart| match part.kind.word() {
            Some(word) => ValueRef::String(word),
            None => ValueRef::Int32(if part.descending { -1 } else { 1 }),
        };
        self.parts.iter().map(|part| (part.path.as_str(), shown(part))).collect()
    }

    /// Every document that matches this filter has entries, as far as the filter of a partial index goes.
    pub fn holds_all_of(&self, filter: &Filter) -> bool {
        self.partial.as_ref().is_none_or(|partial| implies(filter, partial.filter()))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// `"a, -b, c*"`: `-` is descending, `*` has arrays at its last name, `**` at its first.
    pub(crate) fn shape(text: &str) -> IndexShape {
        let part = |text: &str| {
            let path = text.trim_matches(['-', '*', ' ']);
            let arrays = match text.matches('*').count() {
                0 => 0,
                1 => 1 << path.matches('.').count(),
                _ => 1,
            };
            IndexPart {
                path: path.to_owned(),
                kind: FieldKind::Plain,
                descending: text.trim().starts_with('-'),
                arrays,
            }
        };
        IndexShape::plain(text.to_owned(), text.split(',').map(part).collect())
    }
}
