//! The plan cache: the candidate plan that won the trial, for each shape of query.
//!
//! Decisions by statistics are made again for each query, constants and all; only the outcome of trials is used again. An entry
//! names a plan and never contains one: bounds are always those of the query at hand, so a cached choice cannot change a
//! result. For `$planCacheStats` a decision by statistics among several plans is noted as an entry that is not active, once for
//! each shape: a query that was noted by this thread is recognised by the structure of its filter, without making its shape.
//!
//! C1: an entry holds for one state of the collection: its tree, its indexes, and about the number of documents that it
//! had. An entry that does not fit any more is dropped on lookup. C2: a query that takes [`REPLAN_FACTOR`] times the works of
//! the trial that made the entry starts a new trial.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_bson::{ArrayBuf, DocBuf, Value};
use arbor_lang::matcher::Node;
use arbor_store::{Collection, Namespace};
use arbor_txn::View;
use parking_lot::{Mutex, MutexGuard};

use super::query::Query;
use super::shape::ShapeHash;
use crate::Result;
use crate::operator::pattern_doc;

/// COMPAT: MongoDB's internalQueryCacheEvictionRatio.
pub(super) const REPLAN_FACTOR: u64 = 10;
/// Entries of all collections.
const ENTRIES_MAX: usize = 5000;
/// Queries that a thread remembers to have noted; a power of two.
const NOTED: usize = 64;

thread_local! {
    /// Fingerprints of queries, each in the place that it names itself.
    static OF_THREAD: [Cell<u64>; NOTED] = const { [const { Cell::new(0) }; NOTED] };
}

#[derive(Debug, Default)]
pub struct PlanCache {
    entries: Mutex<HashMap<(Namespace, ShapeHash), CachedPlan>>,
    /// Number of times that entries were cleared: what was noted before is news again.
    cleared: AtomicU64,
}

#[derive(Clone, Debug)]
pub struct CachedPlan {
    pub shape: ShapeHash,
    /// Name of the plan that won, by [`super::Solution::name`].
    pub plan: String,
    pub works: u64,
    /// False: a decision by statistics.
    tried: bool,
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
        Ok(CollectionState { indexes: indexes_of(collection), documents: arbor_store::count(view, collection)? })
    }

    /// Returns true if the indexes are unchanged, and there are neither twice nor half as many documents.
    fn holds(&self, now: &CollectionState) -> bool {
        let (few, many) = (self.documents.min(now.documents), self.documents.max(now.documents));
        self.indexes == now.indexes && many <= few.saturating_mul(2).saturating_add(1000)
    }
}

fn indexes_of(collection: &Collection) -> u64 {
    let mut hasher = DefaultHasher::new();
    collection.tree.hash(&mut hasher);
    for index in &collection.indexes {
        (index.tree, &index.name, index.hidden, index.is_multikey()).hash(&mut hasher);
    }
    hasher.finish()
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
            Some(entry) if entry.state.holds(now) => entry.tried.then(|| (entry.plan.clone(), entry.works)),
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
        match entries.entry((namespace.clone(), key)) {
            // what was found by a trial stays
            Entry::Occupied(known) if known.get().tried && !plan.tried && known.get().state.holds(&plan.state) => {}
            Entry::Occupied(mut known) => drop(known.insert(plan)),
            Entry::Vacant(place) => drop(place.insert(plan)),
        }
    }

    /// Returns true if this thread has not noted a query of this kind before. It is noted then.
    pub fn is_news(&self, collection: &Collection, query: &Query) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.cleared.load(Ordering::Relaxed), collection.uuid, collection.indexes.len()).hash(&mut hasher);
        hash_structure(query.filter.root(), &mut hasher);
        query.sort.as_ref().map(|sort| pattern_doc(sort).as_bytes().to_vec()).hash(&mut hasher);
        query.projection.as_ref().map(|shown| shown.spec.as_bytes()).hash(&mut hasher);
        query.above.hash(&mut hasher);
        let print = hasher.finish();
        OF_THREAD.with(|noted| noted.get(print as usize % NOTED).is_none_or(|place| place.replace(print) != print))
    }

    /// All entries of a collection; with `shape`, those of queries of this shape.
    pub fn clear(&self, namespace: &Namespace, shape: Option<ShapeHash>) {
        let goes = |own: &Namespace, entry: &CachedPlan| own == namespace && shape.is_none_or(|one| one == entry.shape);
        self.entries().retain(|(own, _), entry| !goes(own, entry));
        self.cleared.fetch_add(1, Ordering::Relaxed);
    }

    /// As `$planCacheStats` shows the entries of a collection, the oldest first; without those for other indexes.
    pub fn stats(&self, collection: &Collection) -> Vec<DocBuf> {
        let indexes = indexes_of(collection);
        let is_own = |(own, _): &(Namespace, ShapeHash), entry: &CachedPlan| {
            *own == collection.namespace && entry.state.indexes == indexes
        };
        let entries = self.entries();
        let mut own: Vec<_> = entries.iter().filter(|(place, entry)| is_own(place, entry)).collect();
        own.sort_by_key(|((_, key), entry)| (entry.created_ms, *key));
        own.into_iter().map(|((_, key), entry)| entry.stats(*key)).collect()
    }
}

impl CachedPlan {
    pub fn new(shape: ShapeHash, plan: String, works: u64, state: CollectionState, details: DocBuf) -> CachedPlan {
        let created_ms = crate::database::now_ms();
        CachedPlan { shape, plan, works, tried: true, state, created_ms, details }
    }

    /// A plan that was chosen by statistics, which is not used again.
    pub fn untried(self) -> CachedPlan {
        CachedPlan { tried: false, ..self }
    }

    fn stats(&self, key: ShapeHash) -> DocBuf {
        let mut doc = DocBuf::new()
            .with("version", "1")
            .with("planCacheShapeHash", &self.shape.text())
            .with("queryHash", &self.shape.text())
            .with("planCacheKey", &key.text())
            .with("isActive", self.tried)
            .with("works", self.works as i64)
            .with("worksType", "works")
            .with("timeOfCreation", &Value::DateTime(self.created_ms));
        for (name, value) in self.details.as_doc() {
            doc.append(name, value);
        }
        doc.with("indexFilterSet", false).with("estimatedSizeBytes", self.details.as_bytes().len() as i64)
    }
}

/// Hashes a filter without its constants.
fn hash_structure(node: &Node, hasher: &mut DefaultHasher) {
    discriminant(node).hash(hasher);
    node.path().map(|path| path.as_str()).hash(hasher);
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
            nodes.len().hash(hasher);
            nodes.iter().for_each(|node| hash_structure(node, hasher));
        }
        Node::Not(inner) | Node::ElemMatchObject { inner, .. } | Node::ElemMatchValue { inner, .. } => {
            hash_structure(inner, hasher);
        }
        Node::Compare { op, .. } => discriminant(op).hash(hasher),
        _ => {}
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
