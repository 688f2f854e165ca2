//! Samples of the statements of clients, for the distributions that `analyzeShardKey` shows.
//!
//! `config.queryAnalyzers` says which collections are sampled, and how often. A primary of a set, or a router, takes samples as statements
//! end, and writes them to `config.sampledQueries`, a router to that of the config servers, about once a second. S1: what waits is bounded, also while it cannot be stored; what has no place is counted
//! (`queryAnalyzers` of `serverStatus`). S2: an analysis has all samples of the statements that ended before it on the same server.

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
/// Samples that could not be stored for as long are not tried again: it may be that they never can.
const FAILING_MAX: Duration = Duration::from_secs(600);

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
    /// Held while samples are stored.
    storing: Mutex<()>,
}

#[derive(Default)]
struct State {
    rates: HashMap<String, Rate>,
    refreshed: Option<Instant>,
    /// Routers that take samples of the same collections.
    routers: usize,
    waiting: Vec<DocBuf>,
    waiting_bytes: usize,
    /// They cannot be stored since then.
    failing: Option<Instant>,
    reads: Total,
    writes: Total,
    /// Samples that had no place, or could not be stored.
    dropped: u64,
    /// The samples have an index by which they go.
    expires: bool,
}

/// Samples of a kind that were taken.
#[derive(Clone, Copy, Default)]
struct Total {
    count: u64,
    bytes: u64,
}

impl State {
    /// Lets a sample wait, if there is place.
    fn keep(&mut self, sample: DocBuf) -> bool {
        let bytes = sample.as_bytes().len();
        let has_place = self.waiting_bytes + bytes <= WAITING_BYTES_MAX;
        if has_place {
            self.waiting_bytes += bytes;
            self.waiting.push(sample);
        } else {
            self.dropped += 1;
        }
        has_place
    }

    fn take(&mut self) -> Vec<DocBuf> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Lets samples wait again that could not be stored, before those that came meanwhile.
    fn put_back(&mut self, samples: Vec<DocBuf>, now: Instant) {
        let since = *self.failing.get_or_insert(now);
        if now.saturating_duration_since(since) >= FAILING_MAX {
            self.dropped += samples.len() as u64;
            self.failing = None;
            return;
        }
        let newer = self.take();
        samples.into_iter().chain(newer).for_each(|sample| {
            self.keep(sample);
        });
    }
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
        if !rate.takes_one(Instant::now()) {
            return;
        }
        if is_full {
            state.dropped += 1;
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
        let bytes = sample.as_bytes().len() as u64;
        if state.keep(sample) {
            let taken = if is_write(command) { &mut state.writes } else { &mut state.reads };
            taken.count += 1;
            taken.bytes += bytes;
        }
    }

    /// Stores the samples that wait, after those that another thread is storing. Where it fails they wait on.
    fn store(&self, config: &dyn ConfigCollections, interrupt: &Interrupt) -> Result<()> {
        let _storing = self.storing.lock();
        let (waiting, expires) = {
            let mut state = self.state.lock();
            (state.take(), state.expires)
        };
        if waiting.is_empty() {
            return Ok(());
        }
        if let Err(error) = config.put(SAMPLES, &waiting, interrupt) {
            self.state.lock().put_back(waiting, Instant::now());
            return Err(error);
        }
        self.state.lock().failing = None;
        if !expires {
            config.expire_at(SAMPLES, "expireAt", interrupt)?;
            self.state.lock().expires = true;
        }
        Ok(())
    }

    /// Returns `queryAnalyzers` of `serverStatus`.
    pub(crate) fn statistics(&self) -> DocBuf {
        let state = self.state.lock();
        DocBuf::new()
            .with("activeCollections", state.rates.len() as i64)
            .with("totalSampledReadsCount", state.reads.count as i64)
            .with("totalSampledWritesCount", state.writes.count as i64)
            .with("totalSampledReadsBytes", state.reads.bytes as i64)
            .with("totalSampledWritesBytes", state.writes.bytes as i64)
            .with("waitingSamples", state.waiting.len() as i64)
            .with("droppedSamples", state.dropped as i64)
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

fn is_write(command: &str) -> bool {
    matches!(command, "update" | "delete" | "findAndModify")
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
        if !self.takes_samples() {
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
        // here, too
        let _ = self.sampler.store(self.config_collections(), &interrupt);
    }

    /// Reads what is sampled again at the next turn.
    pub fn follow_analyzers(&self) {
        self.sampler.state.lock().refreshed = None;
    }

    fn takes_samples(&self) -> bool {
        match &self.router {
            Some(_) => true,
            None => self.is_primary() && self.ownership.is_none(),
        }
    }

    /// Stores the samples of all statements that have ended here. What cannot be stored now is later.
    pub fn store_samples(&self, interrupt: &Interrupt) {
        if self.takes_samples() {
            let _ = self.sampler.store(self.config_collections(), &interrupt.clone().within(WRITE_MAX));
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

    /// Config servers that can be asked, or not.
    #[derive(Default)]
    struct Fake {
        is_lost: AtomicBool,
        stored: Mutex<Vec<i32>>,
    }

    impl ConfigCollections for Fake {
        fn read(&self, _: &str, _: &DocBuf, _: &Interrupt) -> Result<Vec<DocBuf>> {
            Ok(Vec::new())
        }

        fn put(&self, _: &str, documents: &[DocBuf], _: &Interrupt) -> Result<()> {
            if self.is_lost.load(Ordering::Relaxed) {
                return Err(crate::Error::new(
                    arbor_bson::Code::HOST_UNREACHABLE,
                    "the config servers cannot be reached",
                ));
            }
            let number = |document: &DocBuf| match document.get("_id") {
                Some(ValueRef::Int32(number)) => number,
                other => panic!("{other:?}"),
            };
            self.stored.lock().extend(documents.iter().map(number));
            Ok(())
        }

        fn expire_at(&self, _: &str, _: &str, _: &Interrupt) -> Result<()> {
            Ok(())
        }
    }

    fn sample(number: i32, bytes: usize) -> DocBuf {
        DocBuf::new().with("_id", number).with("cmd", "x".repeat(bytes).as_str())
    }

    fn number(sampler: &Sampler, name: &str) -> i64 {
        match sampler.statistics().get(name) {
            Some(ValueRef::Int64(number)) => number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_could_not_be_stored_is_stored_at_the_next_turn() {
        let (sampler, config) = (Sampler::default(), Fake::default());
        let store = || sampler.store(&config, &Interrupt::never());
        config.is_lost.store(true, Ordering::Relaxed);
        assert!(store().is_ok(), "there is nothing to store");
        for number in 0..3 {
            sampler.state.lock().keep(sample(number, 10));
            assert!(store().is_err());
        }
        assert_eq!((number(&sampler, "waitingSamples"), number(&sampler, "droppedSamples")), (3, 0));
        config.is_lost.store(false, Ordering::Relaxed);
        sampler.state.lock().keep(sample(3, 10));
        assert!(store().is_ok() && store().is_ok());
        assert_eq!(*config.stored.lock(), [0, 1, 2, 3]);
        assert_eq!((number(&sampler, "waitingSamples"), sampler.state.lock().waiting_bytes), (0, 0));
        assert!(sampler.state.lock().failing.is_none());
    }

    #[test]
    fn what_waits_is_bounded_and_what_has_no_place_is_counted() {
        const PART: usize = WAITING_BYTES_MAX / 4;
        let (sampler, config) = (Sampler::default(), Fake::default());
        let keep = |number, bytes| sampler.state.lock().keep(sample(number, bytes));
        assert!(!keep(0, WAITING_BYTES_MAX), "it is larger than the place");
        config.is_lost.store(true, Ordering::Relaxed);
        assert!(keep(1, PART) && keep(2, PART));
        let taken = sampler.state.lock().take();
        // meanwhile
        assert!(keep(3, PART) && keep(4, PART) && keep(5, 10));
        sampler.state.lock().put_back(taken, Instant::now());
        assert_eq!((number(&sampler, "waitingSamples"), number(&sampler, "droppedSamples")), (4, 2));
        assert!(sampler.state.lock().waiting_bytes <= WAITING_BYTES_MAX);
        assert!(sampler.store(&config, &Interrupt::never()).is_err());
        config.is_lost.store(false, Ordering::Relaxed);
        assert!(sampler.store(&config, &Interrupt::never()).is_ok());
        assert_eq!(*config.stored.lock(), [1, 2, 3, 5], "the older ones first");
    }

    #[test]
    fn what_can_never_be_stored_is_not_in_the_way_for_ever() {
        let (mut state, begin) = (State::default(), Instant::now());
        for (after, waiting, dropped) in [(0, 1, 0), (599, 1, 0), (600, 0, 1)] {
            state.put_back(vec![sample(1, 10)], begin + Duration::from_secs(after));
            assert_eq!((state.take().len(), state.dropped), (waiting, dropped), "after {after} s");
        }
        state.put_back(vec![sample(2, 10)], begin + Duration::from_secs(601));
        assert_eq!(state.waiting.len(), 1, "the next ones have their own time");
    }

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
