//! Usage of each collection since it was created or the server started: `top` and `$collStats.latencyStats`.
//!
//! A connection keeps the usage of the collection of its last command, so that the map is read only when it changes over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_protocol::metrics::{Class, Kind};
use arbor_store::{Namespace, Store};
use parking_lot::RwLock;

/// Latencies are counted by powers of two; the last bucket takes all above a day.
const BUCKETS: usize = 38;

/// By namespace: collections and views that were used and are still there.
#[derive(Default)]
pub(crate) struct Usages {
    collections: RwLock<BTreeMap<String, Arc<Usage>>>,
}

pub(crate) struct Usage {
    namespace: String,
    /// The collection was dropped or renamed; connections let go of this.
    is_over: AtomicBool,
    kinds: [Spent; 6],
    classes: [Latencies; 3],
}

#[derive(Default)]
struct Spent {
    count: AtomicU64,
    micros: AtomicU64,
}

struct Latencies {
    spent: Spent,
    buckets: [AtomicU64; BUCKETS],
}

/// One command's usage: kind, latency class, time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub kind: Kind,
    pub class: Class,
    pub took: Duration,
}

/// The collection that a command works on, by its body.
pub(crate) fn collection_of<'b>(body: Doc<'b>) -> Option<&'b str> {
    let (name, value) = body.first()?;
    match if name == "getMore" { body.get("collection")? } else { value } {
        ValueRef::String(collection) => Some(collection),
        _ => None,
    }
}

impl Usages {
    /// Counts a command; `last` is what the connection used before. Only collections and views that exist are counted.
    pub(crate) fn record(&self, last: &mut Option<Arc<Usage>>, store: &Store, db: &str, collection: &str, used: Use) {
        if !last.as_ref().is_some_and(|last| last.is_of(db, collection)) {
            *last = self.find(store, db, collection);
        }
        if let Some(usage) = last {
            usage.add(used);
        }
    }

    fn find(&self, store: &Store, db: &str, collection: &str) -> Option<Arc<Usage>> {
        let name = format!("{db}.{collection}");
        if let Some(usage) = self.collections.read().get(&name) {
            return Some(usage.clone());
        }
        let namespace = Namespace::parse(&name).ok()?;
        if store.collection(&namespace).is_none() {
            store.view(&namespace)?;
        }
        let mut collections = self.collections.write();
        Some(collections.entry(name.clone()).or_insert_with(|| Arc::new(Usage::new(name))).clone())
    }

    pub(crate) fn of(&self, namespace: &str) -> Option<Arc<Usage>> {
        self.collections.read().get(namespace).cloned()
    }

    /// A collection was dropped or has another name.
    pub(crate) fn forget(&self, namespace: &str) {
        self.forget_where(|name| name == namespace);
    }

    pub(crate) fn forget_database(&self, db: &str) {
        self.forget_where(|name| name.split_once('.').is_some_and(|(own, _)| own == db));
    }

    fn forget_where(&self, is_gone: impl Fn(&str) -> bool) {
        let mut collections = self.collections.write();
        collections.retain(|name, usage| {
            let gone = is_gone(name);
            if gone {
                usage.is_over.store(true, Ordering::Relaxed);
            }
            !gone
        });
    }

    /// `top.totals`.
    pub(crate) fn totals(&self) -> DocBuf {
        let mut totals = DocBuf::new().with("note", "all times in microseconds");
        for (name, usage) in self.collections.read().iter() {
            totals.append(name, &usage.to_doc());
        }
        totals
    }
}

impl Usage {
    fn new(namespace: String) -> Usage {
        let latencies = |_| Latencies { spent: Spent::default(), buckets: [const { AtomicU64::new(0) }; BUCKETS] };
        Usage {
            namespace,
            is_over: AtomicBool::new(false),
            kinds: Default::default(),
            classes: [0, 1, 2].map(latencies),
        }
    }

    fn is_of(&self, db: &str, collection: &str) -> bool {
        let is_named = || self.namespace.strip_prefix(db)?.strip_prefix('.').map(|name| name == collection);
        is_named() == Some(true) && !self.is_over.load(Ordering::Relaxed)
    }

    fn add(&self, used: Use) {
        let micros = used.took.as_micros() as u64;
        if let Some(kind) = self.kinds.get(used.kind as usize) {
            kind.add(micros);
        }
        if let Some(class) = self.classes.get(used.class as usize) {
            class.spent.add(micros);
            if let Some(bucket) = class.buckets.get(bucket_of(micros)) {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// As `top` shows it. What reads is said to hold the read lock, what writes the write lock.
    fn to_doc(&self) -> DocBuf {
        let [insert, query, update, delete, get_more, command] = &self.kinds;
        let [reads, writes, commands] = &self.classes;
        let total = Spent::default();
        for class in &self.classes {
            total.count.fetch_add(class.spent.count(), Ordering::Relaxed);
            total.micros.fetch_add(class.spent.micros(), Ordering::Relaxed);
        }
        let read_lock = Spent::default();
        for class in [reads, commands] {
            read_lock.count.fetch_add(class.spent.count(), Ordering::Relaxed);
            read_lock.micros.fetch_add(class.spent.micros(), Ordering::Relaxed);
        }
        let entries = [
            ("total", &total),
            ("readLock", &read_lock),
            ("writeLock", &writes.spent),
            ("queries", query),
            ("getmore", get_more),
            ("insert", insert),
            ("update", update),
            ("remove", delete),
            ("commands", command),
        ];
        let mut doc = DocBuf::new();
        for (name, spent) in entries {
            doc.append(name, &DocBuf::new().with("time", spent.micros() as i64).with("count", spent.count() as i64));
        }
        doc
    }

    /// `latencyStats` of `$collStats`.
    pub(crate) fn latencies(&self, histograms: bool) -> DocBuf {
        let mut doc = DocBuf::new();
        for (name, class) in ["reads", "writes", "commands"].iter().zip(&self.classes) {
            doc.append(name, &class.to_doc(histograms));
        }
        doc.with("transactions", &DocBuf::new().with("latency", 0i64).with("ops", 0i64))
    }
}

/// Returns `latencyStats` of a collection without usage.
pub(crate) fn no_latencies(histograms: bool) -> DocBuf {
    Usage::new(String::new()).latencies(histograms)
}

fn bucket_of(micros: u64) -> usize {
    (micros.max(1).ilog2() as usize).min(BUCKETS - 1)
}

impl Spent {
    fn add(&self, micros: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn micros(&self) -> u64 {
        self.micros.load(Ordering::Relaxed)
    }
}

impl Latencies {
    fn to_doc(&self, histograms: bool) -> DocBuf {
        let mut doc = DocBuf::new();
        if histograms {
            let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).enumerate();
            let rows: Vec<DocBuf> = counts
                .filter(|(_, count)| *count > 0)
                .map(|(power, count)| DocBuf::new().with("micros", 1i64 << power).with("count", count as i64))
                .collect();
            doc.append("histogram", &rows.iter().collect::<ArrayBuf>());
        }
        doc.with("latency", self.spent.micros() as i64).with("ops", self.spent.count() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(kind: Kind, class: Class, micros: u64) -> Use {
        Use { kind, class, took: Duration::from_micros(micros) }
    }

    #[test]
    fn uses_are_counted_by_kind_and_class() {
        let usage = Usage::new("d.c".to_owned());
        usage.add(used(Kind::Query, Class::Read, 5));
        usage.add(used(Kind::Query, Class::Read, 7));
        usage.add(used(Kind::Insert, Class::Write, 0));
        let doc = usage.to_doc();
        for (name, time, count) in
            [("total", 12, 3), ("readLock", 12, 2), ("writeLock", 0, 1), ("queries", 12, 2), ("update", 0, 0)]
        {
            let expected = DocBuf::new().with("time", time as i64).with("count", count as i64);
            assert!(
                matches!(doc.get(name), Some(ValueRef::Document(seen)) if seen.as_bytes() == expected.as_bytes()),
                "{name}"
            );
        }
        let latencies = usage.latencies(true);
        let Some(ValueRef::Document(reads)) = latencies.get("reads") else { panic!("{latencies:?}") };
        let row = DocBuf::new().with("micros", 4i64).with("count", 2i64);
        assert!(matches!(reads.get("histogram"), Some(ValueRef::Array(rows))
            if matches!(rows.get(0), Some(ValueRef::Document(seen)) if seen.as_bytes() == row.as_bytes())));
    }

    #[test]
    fn a_connection_lets_go_of_what_is_over() {
        let usage = Usage::new("d.c.e".to_owned());
        assert!(usage.is_of("d", "c.e") && !usage.is_of("d", "c") && !usage.is_of("d.c", "f"));
        usage.is_over.store(true, Ordering::Relaxed);
        assert!(!usage.is_of("d", "c.e"));
    }

    #[test]
    fn latencies_have_buckets() {
        for (micros, bucket) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (u64::MAX, BUCKETS - 1)] {
            assert_eq!(bucket_of(micros), bucket);
        }
    }

    #[test]
    fn a_command_names_its_collection() {
        let more = DocBuf::new().with("getMore", 5i64).with("collection", "c");
        assert_eq!(collection_of(more.as_doc()), Some("c"));
        assert_eq!(collection_of(DocBuf::new().with("find", "d").as_doc()), Some("d"));
        assert_eq!(collection_of(DocBuf::new().with("ping", 1i32).as_doc()), None);
    }
}
