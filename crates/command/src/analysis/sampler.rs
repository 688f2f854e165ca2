//! Samples of the statements of clients, for the distributions that `analyzeShardKey` shows.
//!
//! `config.queryAnalyzers` says which collections are sampled, and how often. A primary of a set, or a router, takes samples as statements
//! end, and writes them to `config.sampledQueries`, a router to that of the config servers, about once a second. S1: what waits is bounded; under
//! more load fewer are taken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_protocol::log::now_ms;
use arbor_query::{FindSpec, Interrupt, Scope};
use arbor_store::Namespace;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::incoming::Incoming;
use crate::{Commands, Result};

pub const ANALYZERS: &str = "queryAnalyzers";
pub const SAMPLES: &str = "sampledQueries";
/// `queryAnalysisSampleExpirationSecs`
const KEPT_MS: i64 = 7 * 24 * 3600 * 1000;
/// Interval at which the settings are read again.
const REFRESH: Duration = Duration::from_secs(5);
/// A router that has shown itself within this time takes its part of the samples.
const ACTIVE_MS: i64 = 60_000;
/// Longest time that a write to the config servers may take.
const WRITE_MAX: Duration = Duration::from_secs(5);
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Collections of the database `config` that belong to the whole set or cluster.
pub trait ConfigCollections: Send + Sync {
    fn read(&self, collection: &str, filter: &DocBuf, interrupt: &Interrupt) -> Result<Vec<DocBuf>>;

    /// Stores documents in the place of those with their `_id`.
    fn put(&self, collection: &str, documents: &[DocBuf], interrupt: &Interrupt) -> Result<()>;

    /// Makes sure that documents go at the time in a field of them.
    fn expire_at(&self, collection: &str, field: &str, interrupt: &Interrupt) -> Result<()>;
}

#[derive(Default)]
pub(crate) struct Sampler {
    /// Some collection is sampled.
    is_active: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rates: HashMap<String, Rate>,
    refreshed: Option<Instant>,
    /// Routers that take samples of the same collections.
    routers: usize,
    waiting: Vec<DocBuf>,
    waiting_bytes: usize,
    /// The samples have an index by which they go.
    expires: bool,
}

/// Rate of the samples of a collection.
struct Rate {
    collection: Vec<u8>,
    per_second: f64,
    /// Samples that may be taken now, a second's at most, or one.
    left: f64,
    last: Instant,
}

impl Rate {
    fn takes_one(&mut self, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.last).as_secs_f64() * self.per_second;
        self.left = (self.left + gained).min(self.per_second.max(1.0));
        self.last = now;
        let takes = self.left >= 1.0;
        if takes {
            self.left -= 1.0;
        }
        takes
    }
}

impl Sampler {
    /// Takes a sample of a statement that has succeeded, if its collection is sampled.
    pub(crate) fn note(&self, request: &Incoming<'_>) {
        if !self.is_active.load(Ordering::Relaxed) {
            return;
        }
        let Some((command, ValueRef::String(collection))) = request.body.first() else { return };
        let namespace = format!("{}.{collection}", request.db);
        let mut state = self.state.lock();
        let is_full = state.waiting_bytes >= WAITING_BYTES_MAX;
        let Some(rate) = state.rates.get_mut(&namespace) else { return };
        if is_full || !rate.takes_one(Instant::now()) {
            return;
        }
        let Some((command, sampled)) = sampled_command(command, request) else { return };
        let id = Uuid::new_v4();
        let sample = DocBuf::new()
            .with("_id", ValueRef::Binary { subtype: 4, bytes: id.as_bytes() })
            .with("ns", namespace.as_str())
            .with("collectionUuid", ValueRef::Binary { subtype: 4, bytes: &rate.collection })
            .with("cmdName", command)
            .with("cmd", &sampled)
            .with("expireAt", ValueRef::DateTime(now_ms() + KEPT_MS));
        state.waiting_bytes += sample.as_bytes().len();
        state.waiting.push(sample);
    }

    /// Takes over what `config.queryAnalyzers` says.
    pub(crate) fn set(&self, analyzers: &[DocBuf]) {
        let mut state = self.state.lock();
        let mut rates = HashMap::new();
        for analyzer in analyzers.iter().map(DocBuf::as_doc) {
            let (Some(ValueRef::String(namespace)), Some(ValueRef::String("full"))) =
                (analyzer.get("_id"), analyzer.get("mode"))
            else {
                continue;
            };
            let (Some(ValueRef::Binary { bytes, .. }), Some(ValueRef::Double(per_second))) =
                (analyzer.get("collUuid"), analyzer.get("samplesPerSecond"))
            else {
                continue;
            };
            let per_second = per_second / state.routers.max(1) as f64;
            let known = state.rates.remove(namespace).filter(|known| known.collection == bytes);
            let (left, last) = known.map_or((1.0, Instant::now()), |known| (known.left, known.last));
            rates.insert(namespace.to_owned(), Rate { collection: bytes.to_vec(), per_second, left, last });
        }
        self.is_active.store(!rates.is_empty(), Ordering::Relaxed);
        state.rates = rates;
        state.refreshed = Some(Instant::now());
    }
}

/// Returns what is kept of a statement, with the name of its command; of several statements, the first.
fn sampled_command(command: &str, request: &Incoming<'_>) -> Option<(&'static str, DocBuf)> {
    let body = request.body;
    let mut kept = DocBuf::new();
    let filter = |field: &str| match body.get(field) {
        Some(ValueRef::Document(filter)) => filter.to_buf(),
        _ => DocBuf::new(),
    };
    let name = match command {
        "find" => "find",
        "aggregate" => "aggregate",
        "count" => "count",
        "distinct" => "distinct",
        "update" | "delete" => {
            let (name, field) = if command == "update" { ("update", "updates") } else { ("delete", "deletes") };
            let of_sequence = request.sequences.iter().filter(|some| some.name == field).flat_map(|some| some.iter());
            let of_body = match body.get(field) {
                Some(ValueRef::Array(statements)) => statements.get(0),
                _ => None,
            };
            let statement = of_sequence.map(ValueRef::Document).next().or(of_body)?;
            kept.append(name, body.get(name)?).append(field, &[statement].into_iter().collect::<ArrayBuf>());
            copy_of(body, &["let"], &mut kept);
            return Some((name, kept));
        }
        "findAndModify" | "findandmodify" => {
            let (_, collection) = body.first()?;
            kept.append("findAndModify", collection);
            copy_of(body, &["query", "update", "remove", "sort", "upsert", "new", "collation", "let"], &mut kept);
            return Some(("findAndModify", kept));
        }
        _ => return None,
    };
    match name {
        "find" => kept.append("filter", &filter("filter")),
        "aggregate" => {
            let first = match body.get("pipeline") {
                Some(ValueRef::Array(stages)) => stages.get(0),
                _ => None,
            };
            match first {
                Some(ValueRef::Document(stage)) => match stage.first() {
                    Some(("$match", ValueRef::Document(condition))) => kept.append("filter", condition),
                    // about the server or the history, not about documents
                    Some(("$collStats" | "$indexStats" | "$planCacheStats" | "$changeStream", _)) => return None,
                    _ => kept.append("filter", Doc::empty()),
                },
                _ => kept.append("filter", Doc::empty()),
            }
        }
        _ => kept.append("filter", &filter("query")),
    };
    copy_of(body, &["collation", "let"], &mut kept);
    Some((name, kept))
}

fn copy_of(body: Doc<'_>, names: &[&str], into: &mut DocBuf) {
    names.iter().for_each(|name| {
        if let Some(value) = body.get(name) {
            into.append(name, value);
        }
    });
}

impl Commands {
    /// Returns the collections that say what is sampled, and have the samples.
    pub fn config_collections(&self) -> &dyn ConfigCollections {
        match &self.router {
            Some(router) => router.config_collections(),
            None => self,
        }
    }

    /// Follows `config.queryAnalyzers`, and writes the samples. To be called about every second, or more often.
    pub fn write_samples(&self) {
        let takes_part = match &self.router {
            Some(_) => true,
            None => self.is_primary() && self.ownership.is_none(),
        };
        if !takes_part {
            self.sampler.set(&[]);
            return;
        }
        let interrupt = Interrupt::never().within(WRITE_MAX);
        let is_due = self.sampler.state.lock().refreshed.is_none_or(|last| last.elapsed() >= REFRESH);
        if is_due && self.router.is_some() {
            let recent = DocBuf::new().with("$gt", ValueRef::DateTime(now_ms() - ACTIVE_MS));
            let active = self.config_collections().read("mongos", &DocBuf::new().with("ping", &recent), &interrupt);
            self.sampler.state.lock().routers = active.map_or(1, |active| active.len());
        }
        // what fails is tried again
        if is_due && let Ok(analyzers) = self.config_collections().read(ANALYZERS, &DocBuf::new(), &interrupt) {
            let existing = |analyzer: &DocBuf| self.router.is_some() || self.has_collection_of(analyzer.as_doc());
            self.sampler.set(&analyzers.into_iter().filter(existing).collect::<Vec<DocBuf>>());
        }
        let (waiting, expires) = {
            let mut state = self.sampler.state.lock();
            state.waiting_bytes = 0;
            (std::mem::take(&mut state.waiting), state.expires)
        };
        if waiting.is_empty() || self.config_collections().put(SAMPLES, &waiting, &interrupt).is_err() {
            return;
        }
        if !expires && self.config_collections().expire_at(SAMPLES, "expireAt", &interrupt).is_ok() {
            self.sampler.state.lock().expires = true;
        }
    }

    /// Returns true if the collection is the one that is to be sampled, and not another one of its name.
    fn has_collection_of(&self, analyzer: Doc<'_>) -> bool {
        let Some(ValueRef::String(namespace)) = analyzer.get("_id") else { return false };
        let collection = Namespace::parse(namespace).ok().and_then(|name| self.database.store.collection(&name));
        let uuid = match analyzer.get("collUuid") {
            Some(ValueRef::Binary { bytes, .. }) => bytes,
            _ => &[],
        };
        collection.is_some_and(|collection| collection.uuid.as_bytes().as_slice() == uuid)
    }
}

impl ConfigCollections for Commands {
    fn read(&self, collection: &str, filter: &DocBuf, interrupt: &Interrupt) -> Result<Vec<DocBuf>> {
        let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(Namespace::new("config", collection)?) };
        Ok(arbor_query::find(&Scope::of(&self.database), &spec, interrupt)?.all(interrupt)?)
    }

    fn put(&self, collection: &str, documents: &[DocBuf], _: &Interrupt) -> Result<()> {
        let namespace = Namespace::new("config", collection)?;
        documents.iter().try_for_each(|document| self.persist(&namespace, document.as_doc()))
    }

    fn expire_at(&self, collection: &str, field: &str, _: &Interrupt) -> Result<()> {
        let spec = expiring_index(field);
        self.database.store.create_indexes(&Namespace::new("config", collection)?, &[spec])?;
        Ok(())
    }
}

/// Returns the index by which documents go at the time in a field.
pub fn expiring_index(field: &str) -> DocBuf {
    DocBuf::new()
        .with("v", 2i32)
        .with("key", &DocBuf::new().with(field, 1i32))
        .with("name", &format!("{field}_1"))
        .with("expireAfterSeconds", 0i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept() {
        let begin = Instant::now();
        let mut rate = Rate { collection: Vec::new(), per_second: 5.0, left: 1.0, last: begin };
        let taken = |rate: &mut Rate, at_ms: u64| {
            let now = begin + Duration::from_millis(at_ms);
            (0..100).filter(|_| rate.takes_one(now)).count()
        };
        assert_eq!(taken(&mut rate, 0), 1);
        assert_eq!(taken(&mut rate, 1000), 5);
        assert_eq!(taken(&mut rate, 60_000), 5, "what was not used is lost");
        assert_eq!(taken(&mut rate, 60_200), 1);
        let mut slow = Rate { collection: Vec::new(), per_second: 0.5, left: 1.0, last: begin };
        assert_eq!((taken(&mut slow, 0), taken(&mut slow, 1000), taken(&mut slow, 2000)), (1, 0, 1));
    }
}
