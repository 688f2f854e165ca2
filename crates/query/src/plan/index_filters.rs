//! Which indexes the planner may use for a query: index filters (`planCacheSetFilter`), kept for each shape in memory, and the
//! hints of query settings.
//!
//! F1: a filter binds: without a usable index among those it names, the collection is scanned. Hints of query settings are
//! dropped in that case. F2: both take the place of the client's own hint. F3: a filter belongs to one collection (its UUID),
//! so it ends with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::Collation;
use arbor_store::Collection;
use parking_lot::RwLock;
use uuid::Uuid;

use super::choose::same_pattern;
use super::query::{ChosenIndex, Query};
use super::sort_order::Direction;
use crate::{Error, Result};

/// The indexes that a query may use.
#[derive(Clone, Debug, Default)]
pub struct AllowedIndexes {
    indexes: Vec<ChosenIndex>,
    /// Made by `planCacheSetFilter`, see F1.
    pub is_filter: bool,
}

impl AllowedIndexes {
    /// Reads names and key patterns.
    pub fn parse(values: impl Iterator<Item = DocOrName>, is_filter: bool) -> Result<AllowedIndexes> {
        let indexes = values.map(|value| match value {
            DocOrName::Name(name) if name == "$natural" => Ok(ChosenIndex::Natural(Direction::Forward)),
            DocOrName::Name(name) => Ok(ChosenIndex::Name(name)),
            DocOrName::Pattern(pattern) => match pattern.as_doc().first() {
                Some(("$natural", value)) => match arbor_lang::number::exact_i64(value) {
                    Some(1) => Ok(ChosenIndex::Natural(Direction::Forward)),
                    Some(-1) => Ok(ChosenIndex::Natural(Direction::Backward)),
                    _ => Err(Error::bad_value("$natural must be 1 or -1")),
                },
                _ => Ok(ChosenIndex::Pattern(pattern)),
            },
        });
        Ok(AllowedIndexes { indexes: indexes.collect::<Result<_>>()?, is_filter })
    }

    /// Returns the names of the allowed indexes that the collection has.
    pub fn names<'c>(&self, collection: &'c Collection) -> Vec<&'c str> {
        let id_key = DocBuf::new().with("_id", 1i32);
        let id = [(collection.id_index_name(), &id_key)];
        let all = id.into_iter().chain(collection.indexes.iter().map(|index| (index.name.as_str(), &index.key)));
        all.filter(|(name, key)| self.indexes.iter().any(|one| fits(one, name, key))).map(|(name, _)| name).collect()
    }

    /// The direction in which the collection may be scanned, if that is named.
    pub fn natural(&self) -> Option<Direction> {
        self.indexes.iter().find_map(|one| match one {
            ChosenIndex::Natural(direction) => Some(*direction),
            _ => None,
        })
    }
}

fn fits(allowed: &ChosenIndex, name: &str, key: &DocBuf) -> bool {
    match allowed {
        ChosenIndex::Name(own) | ChosenIndex::HiddenToo(own) => own == name,
        ChosenIndex::Pattern(pattern) => same_pattern(pattern, key),
        ChosenIndex::Natural(_) => false,
    }
}

/// An index as clients name it.
#[derive(Clone, Debug)]
pub enum DocOrName {
    Name(String),
    Pattern(DocBuf),
}

impl DocOrName {
    /// Returns None for a value that is neither a string nor a document.
    pub fn read(value: ValueRef<'_>) -> Option<DocOrName> {
        match value {
            ValueRef::String(name) => Some(DocOrName::Name(name.to_owned())),
            ValueRef::Document(pattern) => Some(DocOrName::Pattern(pattern.to_buf())),
            _ => None,
        }
    }
}

/// The query that a filter is for, as `planCacheListFilters` shows it.
#[derive(Clone, Debug)]
pub struct FilteredQuery<'q> {
    pub filter: Doc<'q>,
    pub sort: Doc<'q>,
    pub projection: Doc<'q>,
    pub collation: Collation,
}

impl FilteredQuery<'_> {
    fn shape(&self) -> Result<String> {
        super::shape::text_of_find(self.filter, Some(self.sort), Some(self.projection), self.collation.clone())
    }
}

#[derive(Debug)]
struct IndexFilter {
    shown: DocBuf,
    allowed: Arc<AllowedIndexes>,
}

/// The index filters of all collections.
#[derive(Debug, Default)]
pub struct IndexFilters {
    count: AtomicUsize,
    filters: RwLock<BTreeMap<(Uuid, String), IndexFilter>>,
}

impl IndexFilters {
    /// Sets the filter of a shape, in the place of the one that it has.
    pub fn set(&self, collection: &Collection, query: &FilteredQuery<'_>, indexes: Vec<DocOrName>) -> Result<()> {
        let mut named = ArrayBuf::new();
        for index in &indexes {
            match index {
                DocOrName::Name(name) => named.push(name.as_str()),
                DocOrName::Pattern(pattern) => named.push(pattern),
            };
        }
        let mut shown =
            DocBuf::new().with("query", query.filter).with("sort", query.sort).with("projection", query.projection);
        if !query.collation.is_simple() {
            shown.append("collation", &query.collation.to_doc());
        }
        shown.append("indexes", &named);
        let allowed = Arc::new(AllowedIndexes::parse(indexes.into_iter(), true)?);
        let key = (collection.uuid, query.shape()?);
        self.change(|filters| drop(filters.insert(key, IndexFilter { shown, allowed })));
        Ok(())
    }

    /// Removes the filter of one shape, or all of a collection.
    pub fn clear(&self, collection: &Collection, query: Option<&FilteredQuery<'_>>) -> Result<()> {
        let shape = query.map(FilteredQuery::shape).transpose()?;
        let goes =
            |(uuid, own): &(Uuid, String)| *uuid == collection.uuid && shape.as_ref().is_none_or(|shape| shape == own);
        self.change(|filters| filters.retain(|key, _| !goes(key)));
        Ok(())
    }

    /// Returns the filters of a collection as clients see them.
    pub fn list(&self, collection: &Collection) -> Vec<DocBuf> {
        let filters = self.filters.read();
        let own = filters.iter().filter(|((uuid, _), _)| *uuid == collection.uuid);
        own.map(|(_, filter)| filter.shown.clone()).collect()
    }

    /// Returns the indexes that the filter of this query's shape allows. None: it has no filter.
    pub fn of(&self, collection: &Collection, query: &Query) -> Option<Arc<AllowedIndexes>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let key = (collection.uuid, super::shape::text_of(query));
        self.filters.read().get(&key).map(|filter| filter.allowed.clone())
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<(Uuid, String), IndexFilter>)) {
        let mut filters = self.filters.write();
        change(&mut filters);
        self.count.store(filters.len(), Ordering::Relaxed);
    }
}
