//! Counters of `serverStatus`. Every request increments them, so each is sharded by thread.

use std::time::Duration;

use arbor_base::ShardedCounter;
use arbor_bson::DocBuf;

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
}

#[derive(Default)]
struct Latency {
    micros: ShardedCounter,
    ops: ShardedCounter,
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
            latency.micros.add(took.as_micros() as u64);
            latency.ops.add(1);
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

    pub fn latencies(&self) -> DocBuf {
        let mut doc = DocBuf::new();
        for (name, latency) in ["reads", "writes", "commands"].iter().zip(&self.latencies) {
            let entry =
                DocBuf::new().with("latency", latency.micros.sum() as i64).with("ops", latency.ops.sum() as i64);
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
