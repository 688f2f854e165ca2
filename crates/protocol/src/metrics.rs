//! Counters of `serverStatus`. Every request increments them, so each is sharded by thread.

use std::time::Duration;

use arbor_base::ShardedCounter;
use arbor_base::work::Work;
use arbor_bson::{ArrayBuf, DocBuf};

/// MongoDB's kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

/// MongoDB's classes of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Read,
    Write,
    Command,
}

#[derive(Default)]
pub struct Metrics {
    operations: [ShardedCounter; 6],
    latencies: [Latency; 3],
    /// In the order of their names.
    commands: Vec<CommandCount>,
    pub unknown_commands: ShardedCounter,
    pub documents: Documents,
    pub ttl: Ttl,
    pub asserts_user: ShardedCounter,
    pub work: WorkCounts,
    /// Operations that ended at their `maxTimeMS`.
    pub timed_out: ShardedCounter,
}

/// Latencies are counted by powers of two in microseconds; the last bucket takes all above 35 minutes.
const BUCKETS: usize = 32;

struct Latency {
    micros: ShardedCounter,
    buckets: Vec<ShardedCounter>,
}

impl Default for Latency {
    fn default() -> Latency {
        let buckets = std::iter::repeat_with(ShardedCounter::default).take(BUCKETS).collect();
        Latency { micros: ShardedCounter::default(), buckets }
    }
}

impl Latency {
    fn add(&self, took: Duration) {
        let micros = took.as_micros() as u64;
        self.micros.add(micros);
        let bucket = (micros.max(1).ilog2() as usize).min(BUCKETS - 1);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.add(1);
        }
    }

    /// Number of operations: each is in one bucket.
    fn ops(&self) -> u64 {
        self.buckets.iter().map(ShardedCounter::sum).sum()
    }

    /// Lower bound and count of each bucket that is not empty.
    fn histogram(&self) -> ArrayBuf {
        let counts = self.buckets.iter().map(ShardedCounter::sum).enumerate().filter(|(_, count)| *count > 0);
        let rows: Vec<DocBuf> = counts
            .map(|(power, count)| DocBuf::new().with("micros", 1i64 << power).with("count", count as i64))
            .collect();
        rows.iter().collect()
    }
}

struct CommandCount {
    name: &'static str,
    total: ShardedCounter,
    failed: ShardedCounter,
}

#[derive(Default)]
pub struct Documents {
    pub inserted: ShardedCounter,
    pub returned: ShardedCounter,
    pub updated: ShardedCounter,
    pub deleted: ShardedCounter,
}

/// The work of all statements.
#[derive(Default)]
pub struct WorkCounts {
    pub keys_examined: ShardedCounter,
    pub documents_examined: ShardedCounter,
    pub sorts: ShardedCounter,
    pub spills: ShardedCounter,
    pub write_conflicts: ShardedCounter,
    pub collection_scans: ShardedCounter,
}

impl WorkCounts {
    /// Adds what a statement did.
    pub fn add(&self, work: &Work) {
        let each = [
            (&self.keys_examined, work.keys_examined),
            (&self.documents_examined, work.documents_examined),
            (&self.sorts, u64::from(work.sorted)),
            (&self.spills, work.spills),
            (&self.write_conflicts, work.write_conflicts),
            (&self.collection_scans, work.collection_scans),
        ];
        each.into_iter().filter(|(_, n)| *n > 0).for_each(|(counter, n)| counter.add(n));
    }
}

/// The work of the TTL monitor.
#[derive(Default)]
pub struct Ttl {
    pub deleted: ShardedCounter,
    pub passes: ShardedCounter,
}

impl Metrics {
    /// Counts for the commands of these names. Requires: the names ascend.
    pub fn new(names: impl Iterator<Item = &'static str>) -> Metrics {
        let count = |name| CommandCount { name, total: ShardedCounter::default(), failed: ShardedCounter::default() };
        let commands: Vec<CommandCount> = names.map(count).collect();
        assert!(commands.is_sorted_by(|one, next| one.name < next.name), "the table of commands is in order");
        Metrics { commands, ..Metrics::default() }
    }

    /// `n` operations of a kind: insert counts documents, update and delete count statements.
    pub fn count(&self, kind: Kind, n: u64) {
        if let Some(counter) = self.operations.get(kind as usize) {
            counter.add(n);
        }
    }

    /// A command that ended.
    pub fn command_ended(&self, name: &str, class: Class, took: Duration, failed: bool) {
        if let Some(latency) = self.latencies.get(class as usize) {
            latency.add(took);
        }
        let index = self.commands.binary_search_by(|command| command.name.cmp(name));
        if let Some(command) = index.ok().and_then(|index| self.commands.get(index)) {
            command.total.add(1);
            if failed {
                command.failed.add(1);
            }
        }
        if failed {
            self.asserts_user.add(1);
        }
    }

    pub fn opcounters(&self) -> DocBuf {
        let mut doc = DocBuf::new();
        for (name, counter) in
            ["insert", "query", "update", "delete", "getmore", "command"].iter().zip(&self.operations)
        {
            doc.append(name, counter.sum() as i64);
        }
        doc
    }

    /// Reads, writes and others that ended.
    pub fn commands_by_class(&self) -> [u64; 3] {
        self.latencies.each_ref().map(Latency::ops)
    }

    /// Returns the number of reads and writes that ended, and their microseconds.
    pub fn reads_and_writes(&self) -> (u64, u64) {
        let both = self.latencies.iter().take(Class::Command as usize);
        both.fold((0, 0), |(ops, micros), latency| (ops + latency.ops(), micros + latency.micros.sum()))
    }

    /// `opLatencies`.
    pub fn latencies(&self, histograms: bool) -> DocBuf {
        let mut doc = DocBuf::new();
        for (name, latency) in ["reads", "writes", "commands"].iter().zip(&self.latencies) {
            let mut entry = DocBuf::new();
            if histograms {
                entry.append("histogram", &latency.histogram());
            }
            let entry = entry.with("latency", latency.micros.sum() as i64).with("ops", latency.ops() as i64);
            doc.append(name, &entry);
        }
        doc.with("transactions", &DocBuf::new().with("latency", 0i64).with("ops", 0i64))
    }

    /// `metrics.commands`.
    pub fn commands(&self) -> DocBuf {
        let mut doc = DocBuf::new().with("<UNKNOWN>", self.unknown_commands.sum() as i64);
        for count in &self.commands {
            let entry = DocBuf::new().with("failed", count.failed.sum() as i64).with("total", count.total.sum() as i64);
            doc.append(count.name, &entry);
        }
        doc
    }
}
