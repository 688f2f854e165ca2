//! Statistics of statements by their shape, for `$queryStats`: off unless `internalQueryStatsRateLimit` says how many statements are
//! counted. An entry has the shape without its constants, the client and what the statements cost; the longest unused ones are forgotten.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use arbor_base::work::Work;
use arbor_bson::{Decimal128, DocBuf, Timestamp, ValueRef};
use arbor_protocol::log::now_ms;
use arbor_query::QueryShape;
use parking_lot::Mutex;

/// Memory of all entries. COMPAT: 1 % of the memory in MongoDB.
const BYTES_MAX: usize = 16 << 20;
/// Memory of an entry without its key, estimated.
const ENTRY_BYTES: usize = 1024;
/// A larger key is not kept: its statement is long and hardly repeated.
const KEY_BYTES_MAX: usize = 64 << 10;
/// Cursors whose later batches are counted.
const CURSORS_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct QueryStatistics {
    /// Statements in a second that are counted; 0 is none, -1 all.
    rate: AtomicI64,
    /// A second, and how many were counted in it.
    second: AtomicU64,
    counted: AtomicI64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the hash of their keys.
    entries: BTreeMap<QueryShape, Entry>,
    bytes: usize,
    /// Statements whose cursors are open.
    cursors: HashMap<i64, (QueryShape, Execution)>,
}

/// Cost of one statement with all of its batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Execution {
    pub took: Duration,
    /// Time of the first batch.
    pub first: Duration,
    pub cpu_nanos: u64,
    pub returned: u64,
    pub work: Work,
}

/// Sum, extremes and sum of squares of one number of the statements.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    sum: u64,
    max: u64,
    min: u64,
    squares: u128,
}

struct Entry {
    key: DocBuf,
    shape: QueryShape,
    first_seen: i64,
    last_seen: i64,
    last_micros: u64,
    count: u64,
    sorted: u64,
    spilled: u64,
    /// In the order of [`SPREADS`].
    spreads: [Spread; SPREADS.len()],
}

const SPREADS: [&str; 8] = [
    "totalExecMicros",
    "firstResponseExecMicros",
    "docsReturned",
    "keysExamined",
    "docsExamined",
    "bytesRead",
    "readTimeMicros",
    "cpuNanos",
];

impl QueryStatistics {
    pub(crate) fn set_rate(&self, rate: i64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Returns true if the statement that begins is to be counted.
    pub(crate) fn takes_one(&self) -> bool {
        match self.rate.load(Ordering::Relaxed) {
            0 => false,
            ..0 => true,
            rate => {
                let second = now_ms() as u64 / 1000;
                if self.second.swap(second, Ordering::Relaxed) != second {
                    self.counted.store(0, Ordering::Relaxed);
                }
                self.counted.fetch_add(1, Ordering::Relaxed) < rate
            }
        }
    }

    /// Adds the first batch of a statement; `cursor` is 0 if there are no more.
    pub(crate) fn add(&self, key: DocBuf, shape: QueryShape, execution: Execution, cursor: i64) {
        if key.as_bytes().len() > KEY_BYTES_MAX {
            return;
        }
        let hash = QueryShape::of(&key);
        let now = now_ms();
        let mut state = self.state.lock();
        if !state.entries.contains_key(&hash) {
            state.bytes += key.as_bytes().len() + ENTRY_BYTES;
            state.entries.insert(hash, Entry::new(key, shape, now));
            state.bound();
        }
        if cursor == 0 {
            state.note(&hash, &execution, now);
        } else {
            if state.cursors.len() >= CURSORS_MAX {
                state.end_all_cursors(now);
            }
            state.cursors.insert(cursor, (hash, execution));
        }
    }

    /// Adds a later batch of a statement.
    pub(crate) fn add_batch(&self, cursor: i64, batch: &Execution, ended: bool) {
        let mut state = self.state.lock();
        let Some((hash, mut execution)) = state.cursors.remove(&cursor) else { return };
        execution.add(batch);
        if ended {
            state.note(&hash, &execution, now_ms());
        } else {
            state.cursors.insert(cursor, (hash, execution));
        }
    }

    /// Returns true if later batches may belong to statements that are counted.
    pub(crate) fn has_cursors(&self) -> bool {
        self.rate.load(Ordering::Relaxed) != 0 && !self.state.lock().cursors.is_empty()
    }

    /// Returns the documents of `$queryStats`, each with its key as `shown` shows it.
    pub(crate) fn list(&self, shown: impl Fn(&DocBuf) -> DocBuf) -> Vec<DocBuf> {
        let state = self.state.lock();
        let as_of = Timestamp { seconds: (now_ms() / 1000) as u32, increment: 0 };
        let entries = state.entries.iter().filter(|(_, entry)| entry.count > 0);
        let mut listed: Vec<DocBuf> = entries
            .map(|(hash, entry)| {
                let mut doc = DocBuf::new().with("key", &shown(&entry.key));
                doc.append("keyHash", &hash.text()).append("queryShapeHash", &entry.shape.text());
                doc.append("metrics", &entry.metrics());
                doc.with("asOf", as_of)
            })
            .collect();
        listed.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        listed
    }
}

impl State {
    fn note(&mut self, hash: &QueryShape, execution: &Execution, now: i64) {
        if let Some(entry) = self.entries.get_mut(hash) {
            entry.note(execution, now);
        }
    }

    /// Forgets the longest unused eighth when there are too many.
    fn bound(&mut self) {
        if self.bytes <= BYTES_MAX {
            return;
        }
        let mut seen: Vec<i64> = self.entries.values().map(|entry| entry.last_seen).collect();
        seen.sort_unstable();
        let oldest = seen.get(seen.len() / 8).copied().unwrap_or(i64::MAX);
        let bytes = &mut self.bytes;
        self.entries.retain(|_, entry| {
            let stays = entry.last_seen > oldest;
            if !stays {
                *bytes -= entry.key.as_bytes().len() + ENTRY_BYTES;
            }
            stays
        });
    }

    fn end_all_cursors(&mut self, now: i64) {
        for (hash, execution) in std::mem::take(&mut self.cursors).into_values() {
            self.note(&hash, &execution, now);
        }
    }
}

impl Execution {
    fn add(&mut self, batch: &Execution) {
        self.took += batch.took;
        self.cpu_nanos += batch.cpu_nanos;
        self.returned += batch.returned;
        self.work.keys_examined += batch.work.keys_examined;
        self.work.documents_examined += batch.work.documents_examined;
        self.work.read_bytes += batch.work.read_bytes;
        self.work.read_micros += batch.work.read_micros;
        self.work.sorted |= batch.work.sorted;
        self.work.spills += batch.work.spills;
    }

    /// In the order of [`SPREADS`].
    fn numbers(&self) -> [u64; SPREADS.len()] {
        let Work { keys_examined, documents_examined, read_bytes, read_micros, .. } = self.work;
        let (took, first) = (self.took.as_micros() as u64, self.first.as_micros() as u64);
        [took, first, self.returned, keys_examined, documents_examined, read_bytes, read_micros, self.cpu_nanos]
    }
}

impl Entry {
    fn new(key: DocBuf, shape: QueryShape, now: i64) -> Entry {
        let spreads = [Spread::default(); SPREADS.len()];
        let (last_micros, count, sorted, spilled) = (0, 0, 0, 0);
        Entry { key, shape, first_seen: now, last_seen: now, last_micros, count, sorted, spilled, spreads }
    }

    fn note(&mut self, execution: &Execution, now: i64) {
        self.last_seen = now;
        self.last_micros = execution.took.as_micros() as u64;
        self.sorted += u64::from(execution.work.sorted);
        self.spilled += u64::from(execution.work.spills > 0);
        let is_first = self.count == 0;
        for (spread, number) in self.spreads.iter_mut().zip(execution.numbers()) {
            spread.add(number, is_first);
        }
        self.count += 1;
    }

    fn metrics(&self) -> DocBuf {
        let mut doc = DocBuf::new();
        doc.append("lastExecutionMicros", self.last_micros as i64).append("execCount", self.count as i64);
        for (name, spread) in SPREADS.iter().zip(self.spreads) {
            doc.append(name, &spread.to_doc());
        }
        for (name, of) in [("hasSortStage", self.sorted), ("usedDisk", self.spilled)] {
            let counts = DocBuf::new().with("true", of as i64).with("false", (self.count - of) as i64);
            doc.append(name, &counts);
        }
        doc.append("firstSeenTimestamp", ValueRef::DateTime(self.first_seen));
        doc.with("latestSeenTimestamp", ValueRef::DateTime(self.last_seen))
    }
}

impl Spread {
    fn add(&mut self, number: u64, is_first: bool) {
        self.sum = self.sum.saturating_add(number);
        self.max = self.max.max(number);
        self.min = if is_first { number } else { self.min.min(number) };
        self.squares = self.squares.saturating_add(u128::from(number) * u128::from(number));
    }

    fn to_doc(self) -> DocBuf {
        let doc = DocBuf::new().with("sum", self.sum as i64).with("max", self.max as i64).with("min", self.min as i64);
        let squares: Option<Decimal128> = self.squares.to_string().parse().ok();
        doc.with("sumOfSquares", squares.unwrap_or(Decimal128::from(0i64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> DocBuf {
        DocBuf::new().with("n", n as i64).with("filler", &"x".repeat(10_000))
    }

    fn add(statistics: &QueryStatistics, n: usize, returned: u64, cursor: i64) {
        let execution = Execution { returned, ..Execution::default() };
        statistics.add(key(n), QueryShape::of(&key(n)), execution, cursor);
    }

    #[test]
    fn a_statement_is_one_with_all_of_its_batches() {
        let statistics = QueryStatistics::default();
        statistics.set_rate(-1);
        add(&statistics, 1, 3, 0);
        add(&statistics, 1, 2, 77);
        assert!(statistics.has_cursors());
        statistics.add_batch(77, &Execution { returned: 5, ..Execution::default() }, false);
        statistics.add_batch(77, &Execution { returned: 1, ..Execution::default() }, true);
        statistics.add_batch(77, &Execution { returned: 100, ..Execution::default() }, true);
        assert!(!statistics.has_cursors());
        let state = statistics.state.lock();
        let entry = state.entries.values().next().unwrap();
        let returned = entry.spreads[2];
        assert_eq!((entry.count, returned.sum, returned.min, returned.max, returned.squares), (2, 11, 3, 8, 73));
    }

    #[test]
    fn the_memory_is_bounded() {
        let statistics = QueryStatistics::default();
        for n in 0..4_000 {
            add(&statistics, n, 1, n as i64 % 2 * (n as i64 + 1));
        }
        let state = statistics.state.lock();
        let bytes: usize = state.entries.values().map(|entry| entry.key.as_bytes().len() + ENTRY_BYTES).sum();
        assert_eq!(bytes, state.bytes);
        assert!(state.bytes <= BYTES_MAX && state.cursors.len() <= CURSORS_MAX, "{}", state.bytes);
    }

    #[test]
    fn the_rate_is_kept() {
        let statistics = QueryStatistics::default();
        assert!(!statistics.takes_one());
        statistics.set_rate(3);
        let begun = now_ms() / 1000;
        let taken = (0..1000).filter(|_| statistics.takes_one()).count() as i64;
        let seconds = now_ms() / 1000 - begun + 1;
        assert!((3..=3 * seconds).contains(&taken), "{taken} in {seconds}");
        statistics.set_rate(-1);
        assert!((0..10).all(|_| statistics.takes_one()));
    }
}
