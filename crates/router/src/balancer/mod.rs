//! The balancer: moves chunks between shards until the data is where it should be. It runs on the primary of the config servers.
//!
//! | file | contents |
//! |---|---|
//! | `plan` | the decisions of one round, pure |
//! | `situation` | what they are made from |
//!
//! It is a router without clients: it moves, splits and merges by the commands that users have, so what a crash at any point leaves
//! is what `moves` says. B1: it acts in a term only as long as this server leads; another primary's balancer may begin meanwhile, and the
//! lock of a collection decides between the two. B2: it reads its switch before each move. B3: at the begin of a term it takes
//! away the locks that the balancer before has left, and settles their collections: a move commits only with its lock.

mod plan;
mod situation;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, Timestamp, ValueRef};
use arbor_command::{Commands, Error, Result};
use arbor_query::Interrupt;
use parking_lot::Mutex;

pub(crate) use self::plan::plan;
use self::plan::{Move, Reason, Split};
pub(crate) use self::situation::{Selection, Situation};
use crate::catalog::updates;
use crate::chunks::replacement;
use crate::shard::Connect;
use crate::table::key_of_bound;
use crate::{Request, Router, fields};

/// Ends the name by which a balancer holds locks.
const NAME: &str = ":Balancer";
/// Collections of which chunks move at once.
const MOVES_MAX: usize = 16;
/// Rounds begin with the splits at borders of zones, which may ask for more of them.
const SPLITS_REPEATED: usize = 3;
/// Sizes of `config.actionlog` and `config.changelog`, as in MongoDB.
const LOGS: &[(&str, i64)] = &[("actionlog", 20 << 20), ("changelog", 200 << 20)];
/// Indexes of `config.chunks`, by which commands find single chunks, and routers those that were changed.
const CHUNK_INDEXES: &[&[&str]] =
    &[&["uuid", "min"], &["uuid", "shard", "min"], &["uuid", "lastmod"], &["uuid", "shard", "lastmod"]];
/// Interval at which a round checks that this server still leads.
const WATCH: Duration = Duration::from_millis(100);
/// Merges of one pass over a collection.
const MERGES_MAX: usize = 100;

/// One per config server.
pub struct Balancer {
    address: String,
    connect: Connect,
    /// Begun rounds of this term.
    rounds: AtomicU64,
    in_round: AtomicBool,
    term: AtomicI64,
    led: Mutex<Option<Led>>,
}

/// State of a balancer that leads.
struct Led {
    term: i64,
    router: Router,
    has_begun: bool,
    next_round: Instant,
    last_merges: Instant,
}

/// The sum of a round.
#[derive(Default)]
struct Outcome {
    candidates: usize,
    moved: usize,
    merged: usize,
    error: Option<Error>,
}

impl arbor_command::Balancer for Balancer {
    fn status(&self) -> DocBuf {
        DocBuf::new()
            .with("inBalancerRound", self.in_round.load(Ordering::Acquire))
            .with("numBalancerRounds", self.rounds.load(Ordering::Acquire) as i64)
            .with("term", self.term.load(Ordering::Acquire))
    }
}

impl Balancer {
    /// `address` is `host:port` of this server.
    pub fn new(address: &str, connect: Connect) -> Balancer {
        Balancer {
            address: format!("{address}{NAME}"),
            connect,
            rounds: AtomicU64::new(0),
            in_round: AtomicBool::new(false),
            term: AtomicI64::new(0),
            led: Mutex::new(None),
        }
    }

    /// Runs a round if it is time for one and this server leads. To be called several times a second.
    pub fn tick(&self, server: &Commands) {
        let mut led = self.led.lock();
        let Some((term, hosts)) = server.leads().filter(|_| !server.is_stopping()) else {
            *led = None;
            return;
        };
        if led.as_ref().is_none_or(|led| led.term != term) {
            // the address is that of a configuration, which was checked
            let Ok(router) = Router::new(&hosts, self.address.clone(), self.connect.clone()) else { return };
            let now = Instant::now();
            *led = Some(Led { term, router, has_begun: false, next_round: now, last_merges: now });
            self.term.store(term, Ordering::Release);
            self.rounds.store(0, Ordering::Release);
        }
        let Some(led) = led.as_mut().filter(|led| led.next_round <= Instant::now()) else { return };
        let moved = self.watched(server, led);
        let pause = if moved { "balancerMigrationsThrottlingMs" } else { "balancerRoundIntervalMs" };
        let pause = server.parameter(pause).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        led.next_round = Instant::now() + Duration::from_millis(pause.max(10));
    }

    /// Runs a round that ends when this server does not lead any more; returns true if chunks have moved.
    fn watched(&self, server: &Commands, led: &mut Led) -> bool {
        let (killed, over) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
        let (term, stopping) = (led.term, led.router.stopping.clone());
        let interrupt = Interrupt::new(None, killed.clone());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    if server.is_stopping() {
                        // what a move has left is settled by the next balancer
                        stopping.store(true, Ordering::Release);
                    }
                    if server.is_stopping() || server.leads().is_none_or(|(now, _)| now != term) {
                        killed.store(true, Ordering::Release);
                    }
                    std::thread::sleep(WATCH);
                }
            });
            let round = Round { balancer: self, server, interrupt: &interrupt };
            let outcome = round.run(led);
            over.store(true, Ordering::Release);
            self.in_round.store(false, Ordering::Release);
            outcome.moved > 0
        })
    }
}

struct Round<'r> {
    balancer: &'r Balancer,
    server: &'r Commands,
    interrupt: &'r Interrupt,
}

impl Round<'_> {
    fn run(&self, led: &mut Led) -> Outcome {
        let begun = Instant::now();
        let mut outcome = Outcome::default();
        if let Err(error) = self.try_run(led, &mut outcome) {
            outcome.error = Some(error);
        }
        if (outcome.moved > 0 || outcome.merged > 0 || outcome.error.is_some()) && self.interrupt.check().is_ok() {
            self.log(&led.router, begun.elapsed(), &outcome);
        }
        outcome
    }

    fn try_run(&self, led: &mut Led, outcome: &mut Outcome) -> Result<()> {
        if !led.has_begun {
            self.take_over(&led.router)?;
            led.has_begun = true;
        }
        if !may_run(&led.router, self.interrupt)? {
            return Ok(());
        }
        self.balancer.in_round.store(true, Ordering::Release);
        self.balancer.rounds.fetch_add(1, Ordering::AcqRel);
        let interval = self.server.parameter("autoMergerIntervalSecs").unwrap_or(0).max(1) as u64;
        if led.last_merges.elapsed() >= Duration::from_secs(interval) {
            led.last_merges = Instant::now();
            outcome.merged = self.merge(&led.router)?;
        }
        let mut repeated = 0;
        loop {
            let situation = Situation::read(&led.router.catalog, Selection::Unbalanced, self.interrupt)?;
            let round = plan(&situation.shards, &situation.collections);
            for split in &round.splits {
                // the other collections have nothing to do with it
                if let Err(error) = self.split(&led.router, &situation, split) {
                    outcome.error = Some(error);
                }
            }
            if round.splits.is_empty() || repeated == SPLITS_REPEATED {
                outcome.candidates = round.moves.len();
                return self.move_all(&led.router, &situation, &round.moves, outcome);
            }
            repeated += 1;
        }
    }

    /// Does work of the router as if a user had sent it a command.
    fn with_request<T>(
        &self,
        router: &Router,
        body: &DocBuf,
        work: impl FnOnce(Request<'_>) -> Result<T>,
    ) -> Result<T> {
        self.server
            .with_routed(body.as_doc(), self.interrupt, |routed| work(Request { router, server: self.server, routed }))
    }

    /// Ends what the balancer before has left (B3).
    fn take_over(&self, router: &Router) -> Result<()> {
        for (name, bytes) in LOGS {
            let create = DocBuf::new().with("create", *name).with("capped", true).with("size", *bytes);
            match router.catalog.write(create, self.interrupt) {
                Err(error) if error.code != Code::NAMESPACE_EXISTS => return Err(error),
                _ => {}
            }
        }
        let indexes: ArrayBuf = CHUNK_INDEXES
            .iter()
            .map(|fields| {
                let key: DocBuf = fields.iter().map(|field| (*field, ValueRef::Int32(1))).collect();
                DocBuf::new().with("key", &key).with("name", &format!("{}_1", fields.join("_1_")))
            })
            .collect::<Vec<DocBuf>>()
            .iter()
            .collect();
        let create = DocBuf::new().with("createIndexes", "chunks").with("indexes", &indexes);
        router.catalog.write(create, self.interrupt)?;
        for lock in router.catalog.read("locks", &DocBuf::new(), "_id", self.interrupt)? {
            let lock = lock.as_doc();
            if fields::string(lock, "who").is_some_and(|who| who.ends_with(NAME)) {
                let body = DocBuf::new().with("flushRouterConfig", 1i32);
                // where it fails, the lock grows old
                let _ = self.with_request(router, &body, |request| request.take_over(lock).map(drop));
            }
        }
        Ok(())
    }

    fn split(&self, router: &Router, situation: &Situation, split: &Split) -> Result<()> {
        let Some(known) = situation.known.get(split.collection) else { return Ok(()) };
        let Some(middle) = known.borders.get(&split.at) else { return Ok(()) };
        let body = DocBuf::new().with("split", known.namespace.as_str()).with("middle", middle);
        self.with_request(router, &body, |request| request.split_chunk()).map(drop)
    }

    /// Does the moves of a round: those of one collection one after another, which its lock demands, those of several at once.
    fn move_all(&self, router: &Router, situation: &Situation, moves: &[Move], outcome: &mut Outcome) -> Result<()> {
        let mut by_collection: BTreeMap<usize, Vec<&Move>> = BTreeMap::new();
        moves.iter().for_each(|step| by_collection.entry(step.collection).or_default().push(step));
        let groups: Vec<Vec<&Move>> = by_collection.into_values().collect();
        let next = Mutex::new(groups.into_iter());
        let (moved, failed) = (AtomicU64::new(0), Mutex::new(None));
        let work = || {
            while let Some(group) = { next.lock().next() } {
                for step in group {
                    match self.execute(router, situation, step) {
                        Ok(true) => drop(moved.fetch_add(1, Ordering::AcqRel)),
                        Ok(false) => {}
                        // another operation on it is in progress; the next round looks again
                        Err(error) if is_passing(&error) => break,
                        Err(error) => {
                            *failed.lock() = Some(error);
                            break;
                        }
                    }
                }
            }
        };
        let threads = { next.lock().len() }.min(MOVES_MAX);
        std::thread::scope(|scope| {
            for at in 0..threads {
                let thread = std::thread::Builder::new().name(format!("arbor-move-{at}"));
                let spawned = thread.stack_size(arbor_base::STATEMENT_STACK_BYTES).spawn_scoped(scope, work);
                if let Err(error) = spawned {
                    *failed.lock() = Some(Error::new(Code::INTERNAL_ERROR, error.to_string()));
                }
            }
        });
        outcome.moved = moved.into_inner() as usize;
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Returns true if the chunk, or its beginning, has moved.
    fn execute(&self, router: &Router, situation: &Situation, step: &Move) -> Result<bool> {
        let (Some(known), Some(collection), Some(to)) = (
            situation.known.get(step.collection),
            situation.collections.get(step.collection),
            situation.names.get(step.to),
        ) else {
            return Ok(false);
        };
        let Some(chunk) = known.chunks.get(step.chunk) else { return Ok(false) };
        if !may_run(router, self.interrupt)? {
            return Ok(false);
        }
        let bound = |name| fields::document(chunk.as_doc(), name).unwrap_or(Doc::empty());
        let (min, mut max) = (bound("min"), bound("max").to_buf());
        // sizes are estimates: what moves for the sake of size is measured before
        if step.part.is_some() || step.reason == Reason::Size {
            let (low, high) = (key_of_bound(min), key_of_bound(max.as_doc()));
            let ask = DocBuf::new()
                .with("_shardsvrSplitPoint", known.namespace.as_str())
                .with("key", &known.key)
                .with("low", ValueRef::Binary { subtype: 0, bytes: &low })
                .with("high", ValueRef::Binary { subtype: 0, bytes: &high })
                .with("bytes", collection.chunk_bytes_max as i64);
            let from = fields::string(chunk.as_doc(), "shard").unwrap_or_default();
            let reply = router.catalog.shard(from, self.interrupt)?.call("admin", &ask, self.interrupt)?;
            let bytes = u64::try_from(fields::int(reply.as_doc(), "bytes")).unwrap_or(0);
            let at = fields::document(reply.as_doc(), "at").map(Doc::to_buf);
            if step.reason == Reason::Size && bytes > 2 * collection.chunk_bytes_max {
                self.mark_jumbo(router, known, min, at.as_ref())?;
                return Ok(false);
            }
            max = at.unwrap_or(max);
        }
        let body = DocBuf::new().with("moveRange", known.namespace.as_str()).with("min", min).with("max", &max);
        let body = body.with("toShard", to.as_str());
        self.with_request(router, &body, |request| request.move_range())?;
        Ok(true)
    }

    /// Marks a chunk that cannot be divided; `end`: only the part before it cannot.
    fn mark_jumbo(&self, router: &Router, known: &situation::Known, min: Doc<'_>, end: Option<&DocBuf>) -> Result<()> {
        let namespace = known.namespace.as_str();
        if let Some(end) = end {
            let body = DocBuf::new().with("split", namespace).with("middle", end);
            self.with_request(router, &body, |request| request.split_chunk())?;
        }
        let body = DocBuf::new().with("moveRange", namespace);
        self.with_request(router, &body, |request| {
            let guard = request.lock(namespace)?;
            let table = request.sharded(namespace)?;
            let chunk = request.chunk_with(&table, min)?;
            let marked = fields::without(chunk.as_doc(), &["jumbo"]).with("jumbo", true);
            router.catalog.transaction([&guard], &[updates("chunks", &[replacement(&marked)])], self.interrupt)
        })
    }

    /// Merges neighbouring chunks of a shard that have been there for longer than anybody reads the past; returns how many became one.
    fn merge(&self, router: &Router) -> Result<usize> {
        let before = merged_before(self.server);
        let situation = Situation::read(&router.catalog, Selection::Chunks, self.interrupt)?;
        let mut merged = 0;
        for known in situation.known.iter().filter(|known| known.merges) {
            for run in mergeable(known, before).into_iter().take(MERGES_MAX) {
                let bounds: ArrayBuf = [&run.min, &run.max].into_iter().collect();
                let body = DocBuf::new().with("mergeChunks", known.namespace.as_str()).with("bounds", &bounds);
                match self.with_request(router, &body, |request| request.merge_chunks()) {
                    Ok(_) => merged += 1,
                    Err(error) if is_passing(&error) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(merged)
    }

    /// Adds a row to `config.actionlog`, from which `sh.status()` shows failures. Nothing depends on it.
    fn log(&self, router: &Router, took: Duration, outcome: &Outcome) {
        let mut details = DocBuf::new()
            .with("executionTimeMillis", took.as_millis() as i64)
            .with("errorOccured", outcome.error.is_some());
        if let Some(error) = &outcome.error {
            details.append("errmsg", error.message.as_str());
        }
        details
            .append("candidateChunks", outcome.candidates as i64)
            .append("chunksMoved", outcome.moved as i64)
            .append("chunksMerged", outcome.merged as i64);
        let id = format!("{}-{}", self.balancer.address, arbor_protocol::topology::new_object_id());
        let row = DocBuf::new()
            .with("_id", id.as_str())
            .with("server", self.balancer.address.as_str())
            .with("time", ValueRef::DateTime(arbor_protocol::log::now_ms()))
            .with("what", "balancer.round")
            .with("details", &details);
        let _ = router.catalog.insert("actionlog", &[row], &router.within(Duration::from_secs(10)));
    }
}

/// Returns true if the balancer is switched on, and the time is within its window.
fn may_run(router: &Router, interrupt: &Interrupt) -> Result<bool> {
    let setting = router.catalog.read_one("settings", "balancer".into(), interrupt)?.unwrap_or_default();
    let now = jiff::Zoned::now();
    let minute = u32::from(now.hour().unsigned_abs()) * 60 + u32::from(now.minute().unsigned_abs());
    Ok(!is_off(setting.as_doc()) && is_open(setting.as_doc(), minute))
}

/// Returns true if the document of `config.settings` switches the balancer off.
pub(crate) fn is_off(setting: Doc<'_>) -> bool {
    fields::is_true(setting, "stopped") || fields::string(setting, "mode") == Some("off")
}

/// Returns true if the minute of the day is within the window, or there is none. A window that cannot be read is none, as in MongoDB.
fn is_open(setting: Doc<'_>, minute: u32) -> bool {
    let Some(window) = fields::document(setting, "activeWindow") else { return true };
    let end = |name| fields::string(window, name).and_then(plan::minutes);
    match (end("start"), end("stop")) {
        (Some(start), Some(stop)) if start != stop => plan::is_within(start, stop, minute),
        _ => true,
    }
}

/// Errors that the next round may not hit: somebody else is changing the collection.
fn is_passing(error: &Error) -> bool {
    matches!(
        error.code,
        Code::CONFLICTING_OPERATION_IN_PROGRESS
            | Code::LOCK_BUSY
            | Code::NAMESPACE_NOT_SHARDED
            | Code::NAMESPACE_NOT_FOUND
            | Code::STALE_CONFIG
    )
}

/// Returns the second before which a chunk must have come to its shard to be merged: reads of the past use the history of chunks.
pub(crate) fn merged_before(server: &Commands) -> u32 {
    let window = server.history_window().as_secs();
    let now = arbor_protocol::log::now_ms() / 1000;
    u32::try_from(now - window as i64).unwrap_or(0)
}

/// Neighbouring chunks of a shard that may become one.
pub(crate) struct Run {
    pub min: DocBuf,
    pub max: DocBuf,
    pub shard: String,
    pub count: usize,
}

/// Returns the runs of chunks that may become one.
pub(crate) fn mergeable(known: &situation::Known, before: u32) -> Vec<Run> {
    let mut runs: Vec<(&DocBuf, &DocBuf, usize)> = Vec::new();
    let mut open: Option<(&DocBuf, &DocBuf, usize)> = None;
    let bound = |chunk: &DocBuf, name| fields::document(chunk.as_doc(), name).map(Doc::to_buf).unwrap_or_default();
    let owner = |chunk: &DocBuf| fields::string(chunk.as_doc(), "shard").map(str::to_owned);
    for chunk in &known.chunks {
        let since = match chunk.get("onCurrentShardSince") {
            Some(ValueRef::Timestamp(Timestamp { seconds, .. })) => seconds,
            _ => 0,
        };
        let is_free = !fields::is_true(chunk.as_doc(), "jumbo") && since < before;
        let at_border = || known.borders.contains_key(&key_of_bound(bound(chunk, "min").as_doc()));
        open = match open {
            Some((first, _, count)) if is_free && owner(first) == owner(chunk) && !at_border() => {
                Some((first, chunk, count + 1))
            }
            other => {
                runs.extend(other);
                is_free.then_some((chunk, chunk, 1))
            }
        };
    }
    runs.extend(open);
    let several = runs.into_iter().filter(|(.., count)| *count > 1);
    let run = |(first, last, count)| Run {
        min: bound(first, "min"),
        max: bound(last, "max"),
        shard: owner(first).unwrap_or_default(),
        count,
    };
    several.map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn windows_of_the_setting() {
        for (text, minute, expected) in [
            ("{}", 0, true),
            ("{activeWindow: {start: '1:00', stop: '2:00'}}", 90, true),
            ("{activeWindow: {start: '1:00', stop: '2:00'}}", 30, false),
            ("{activeWindow: {start: '23:00', stop: '2:00'}}", 30, true),
            ("{activeWindow: {start: 'x', stop: '2:00'}}", 30, true),
            ("{activeWindow: {start: '2:00', stop: '2:00'}}", 30, true),
        ] {
            assert_eq!(is_open(doc(text).as_doc(), minute), expected, "{text} {minute}");
        }
        for (text, expected) in
            [("{}", false), ("{stopped: true}", true), ("{mode: 'off'}", true), ("{mode: 'full'}", false)]
        {
            assert_eq!(is_off(doc(text).as_doc()), expected, "{text}");
        }
    }

    #[test]
    fn neighbours_on_a_shard_become_one() {
        let chunk = |min: i32, shard: &str, since: u32, jumbo: bool| {
            let bound = |value: i32| DocBuf::new().with("k", value);
            DocBuf::new()
                .with("min", &bound(min))
                .with("max", &bound(min + 1))
                .with("shard", shard)
                .with("jumbo", jumbo)
                .with("onCurrentShardSince", fields::timestamp(since, 0))
        };
        let runs = |chunks: Vec<DocBuf>, borders: &[i32]| {
            let border = |at: &i32| {
                let border = DocBuf::new().with("k", *at);
                (key_of_bound(border.as_doc()), border)
            };
            let borders = borders.iter().map(border).collect();
            let key = doc("{k: 1}");
            let known = situation::Known { namespace: "d.c".to_owned(), key, chunks, borders, merges: true };
            let number = |bound: &DocBuf| fields::int(bound.as_doc(), "k");
            mergeable(&known, 100).iter().map(|run| (number(&run.min), number(&run.max))).collect::<Vec<_>>()
        };
        let plain = |shards: &str| -> Vec<DocBuf> {
            (0..).zip(shards.chars()).map(|(at, shard)| chunk(at, &shard.to_string(), 1, false)).collect()
        };
        assert_eq!(runs(plain("aabbba"), &[]), [(0, 2), (2, 5)]);
        assert_eq!(runs(plain("aaaa"), &[2]), [(0, 2), (2, 4)]);
        assert_eq!(runs(plain("abab"), &[]), []);
        assert_eq!(runs(vec![], &[]), []);
        let mut some = plain("aaaaa");
        some[1] = chunk(1, "a", 1, true);
        some[4] = chunk(4, "a", 100, false);
        assert_eq!(runs(some, &[]), [(2, 4)]);
    }
}
