//! The plan cache: the candidate plan that won the trial, for each shape of query.
//!
//! Decisions by statistics are made again for each query, constants and all; only the outcome of trials is kept. An entry
//! names a plan and never contains one: bounds are always those of the query at hand, so a cached choice cannot change a
//! result.
//!
//! C1: an entry holds for one state of the collection: its tree, its indexes, and about the number of documents that it
//! had. An entry that does not fit any more is dropped on lookup. C2: a query that takes [`REPLAN_FACTOR`] times the works of
//! the trial that made the entry starts a new trial.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use arbor_bson::{ArrayBuf, DocBuf, Value};
use arbor_store::{Collection, Namespace};
use arbor_txn::View;
use parking_lot::{Mutex, MutexGuard};

use super::shape::ShapeHash;
use crate::Result;

/// COMPAT: MongoDB's internalQueryCacheEvictionRatio.
pub(super) const REPLAN_FACTOR: u64 = 10;
/// Entries of all collections.
const ENTRIES_MAX: usize = 5000;

#[derive(Debug, Default)]
pub struct PlanCache {
    entries: Mutex<HashMap<(Namespace, ShapeHash), CachedPlan>>,
}

#[derive(Clone, Debug)]
pub struct CachedPlan {
    pub shape: ShapeHash,
    /// Name of the plan that won, by [`super::Solution::name`].
    pub plan: String,
    pub works: u64,
    state: CollectionState,
    created_ms: i64,
    /// `createdFromQuery`, `cachedPlan`, `creationExecStats`, `candidatePlanScores`.
    details: DocBuf,
}

/// State of the collection that an entry depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionState {
    indexes: u64,
    documents: u64,
}

impl CollectionState {
    pub fn of(view: &dyn View, collection: &Collection) -> Result<CollectionState> {
        let mut hasher = DefaultHasher::new();
        collection.tree.hash(&mut hasher);
        for index in &collection.indexes {
            (index.tree, &index.name, index.hidden, index.is_multikey()).hash(&mut hasher);
        }
        Ok(CollectionState { indexes: hasher.finish(), documents: arbor_store::count(view, collection)? })
    }

    /// Returns true if the indexes are unchanged, and there are neither twice nor half as many documents.
    fn holds(&self, now: &CollectionState) -> bool {
        let (few, many) = (self.documents.min(now.documents), self.documents.max(now.documents));
        self.indexes == now.indexes && many <= few.saturating_mul(2).saturating_add(1000)
    }
}

impl PlanCache {
    fn entries(&self) -> MutexGuard<'_, HashMap<(Namespace, ShapeHash), CachedPlan>> {
        // a map of hints is whole at any time
        self.entries.lock()
    }

    /// Returns the name of the plan that won last time, and the works that it took.
    pub fn find(&self, namespace: &Namespace, key: ShapeHash, now: &CollectionState) -> Option<(String, u64)> {
        let mut entries = self.entries();
        let place = (namespace.clone(), key);
        match entries.get(&place) {
            Some(entry) if entry.state.holds(now) => Some((entry.plan.clone(), entry.works)),
            Some(_) => {
                entries.remove(&place);
                None
            }
            None => None,
        }
    }

    pub fn keep(&self, namespace: &Namespace, key: ShapeHash, plan: CachedPlan) {
        let mut entries = self.entries();
        if entries.len() >= ENTRIES_MAX
            && let Some(oldest) =
                entries.iter().min_by_key(|(_, entry)| entry.created_ms).map(|(place, _)| place.clone())
        {
            entries.remove(&oldest);
        }
        entries.insert((namespace.clone(), key), plan);
    }

    /// All entries of a collection; with `shape`, those of queries of this shape.
    pub fn clear(&self, namespace: &Namespace, shape: Option<ShapeHash>) {
        let goes = |own: &Namespace, entry: &CachedPlan| own == namespace && shape.is_none_or(|one| one == entry.shape);
        self.entries().retain(|(own, _), entry| !goes(own, entry));
    }

    /// As `$planCacheStats` shows the entries of a collection, the oldest first.
    pub fn stats(&self, namespace: &Namespace) -> Vec<DocBuf> {
        let entries = self.entries();
        let mut own: Vec<_> = entries.iter().filter(|((own, _), _)| own == namespace).collect();
        own.sort_by_key(|((_, key), entry)| (entry.created_ms, *key));
        own.into_iter().map(|((_, key), entry)| entry.stats(*key)).collect()
    }
}

impl CachedPlan {
    pub fn new(shape: ShapeHash, plan: String, works: u64, state: CollectionState, details: DocBuf) -> CachedPlan {
        let created_ms = crate::database::now_ms();
        CachedPlan { shape, plan, works, state, created_ms, details }
    }

    fn stats(&self, key: ShapeHash) -> DocBuf {
        let mut doc = DocBuf::new()
            .with("version", "1")
            .with("planCacheShapeHash", &self.shape.text())
            .with("queryHash", &self.shape.text())
            .with("planCacheKey", &key.text())
            .with("isActive", true)
            .with("works", self.works as i64)
            .with("worksType", "works")
            .with("timeOfCreation", &Value::DateTime(self.created_ms));
        for (name, value) in self.details.as_doc() {
            doc.append(name, value);
        }
        doc.with("indexFilterSet", false).with("estimatedSizeBytes", self.details.as_bytes().len() as i64)
    }
}

/// `createdFromQuery` and what the trial came to.
pub(super) fn details(query: &DocBuf, plan: &DocBuf, stats: &ArrayBuf, scores: &ArrayBuf) -> DocBuf {
    DocBuf::new()
        .with("createdFromQuery", query)
        .with("cachedPlan", plan)
        .with("creationExecStats", stats)
        .with("candidatePlanScores", scores)
}
