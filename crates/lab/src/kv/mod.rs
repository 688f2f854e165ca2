//! `arbor lab kv`: the storage engines alone, side by side, under their common trait, with the log next to them as under a server,
//! and without protocol and planner: what one engine costs more than another here is the engine's own.
//!
//! Every engine has a process of its own ([`child`]), in a memory cgroup when the run is cold. The
//! processes take turns phase by phase, and those not in turn are stopped, so drifts of the machine affect all alike.
//!
//! | phase | what one operation is |
//! |---|---|
//! | load-seq | put of a new key, ascending, in batches; into a directory of its own that is removed afterwards |
//! | load-rand | put of a new key in random order, in batches |
//! | scan-100-loaded, -idle, -cold | seek to a random key and read 100 rows, counted in rows: right after the load, after some idle seconds, with caches dropped |
//! | scan-full | reads the whole tree; counted in rows |
//! | get-xN | get of an existing random key, a snapshot each, by N threads |
//! | get-missing | get of a key that is not there |
//! | overwrite | put of an existing random key, in batches |
//! | rmw | upsert: get and put of an existing random key, in batches |
//! | increment | update message to an existing random key, in batches, nothing read; `-` for engines without messages |
//! | mixed-x4 | gets and puts of random keys in turn by 4 threads; concurrent puts are applied as one batch |
//! | get-cold-xN | as get, with caches dropped; a tenth of the calls go before unmeasured |
//! | delete-range | one range delete of a tenth of the rows |
//! | space-back | a checkpoint, then the wait until four fifths of that tenth's bytes are free |
//! | checkpoint | makes everything durable |
//! | reopen | opens the directory again after a checkpoint |
//! | reopen-kill | opens log and engine again after kill -9 during a random load, and replays what was not durable |
//!
//! Latencies are per call: a batch, a get, a scan. A checkpoint thread runs concurrently with the writing phases, as under
//! a server.
//! Caches are dropped by a checkpoint, closing, forgetting the files' pages (fadvise) and opening again.

pub(crate) mod arguments;
mod child;
mod conduct;
mod engine;
mod experiment;
mod journal;
mod killed;
mod measure;
mod phase;
mod reading;
mod rows;
mod session;
mod summary;
mod update;
mod writing;

use serde::{Deserialize, Serialize};

pub(crate) use engine::asked_for;
pub use engine::{EngineFacts, KvEngine, KvSettings, Opened};
pub(crate) use experiment::run_as_experiment;
pub use measure::PhaseStatistics;
pub use phase::Phase;
pub use update::Increment;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KvOptions {
    pub rows: u64,
    pub value_bytes: usize,
    /// Puts per batch.
    pub batch: u64,
    /// Operations of the phases that follow the loads, at most.
    pub calls: u64,
    /// Seconds of such a phase, at most.
    pub seconds: u64,
    /// Seconds of the measured part of a load; what is left is put in key order, unmeasured.
    pub load_seconds: u64,
    pub idle_seconds: u64,
    pub threads: Vec<usize>,
    pub seed: u64,
    pub cache_bytes: u64,
    /// Memory of an engine's process with its page cache.
    pub memory_bytes: Option<u64>,
    pub direct_io: bool,
    /// Batches go through the log first, which is synced every 100 ms.
    pub log: bool,
    /// Shape of the Zipf distribution of rows that are read and changed; `None`: all alike.
    #[serde(default)]
    pub zipfian: Option<f64>,
    /// Rows of the load that kill -9 ends.
    pub kill_rows: u64,
}

impl Default for KvOptions {
    fn default() -> KvOptions {
        KvOptions {
            rows: 1_000_000,
            value_bytes: 120,
            batch: 100,
            calls: 200_000,
            seconds: 60,
            load_seconds: 600,
            idle_seconds: 5,
            threads: vec![1, 2, 4],
            seed: 1,
            cache_bytes: 1 << 30,
            memory_bytes: None,
            direct_io: false,
            log: true,
            zipfian: None,
            kill_rows: 1_000_000,
        }
    }
}

impl KvOptions {
    /// Returns the bytes of all rows in multiples of the cache.
    fn times_of_cache(&self) -> f64 {
        (self.rows * (self.value_bytes as u64 + 8)) as f64 / self.cache_bytes.max(1) as f64
    }

    /// Returns a title: what was measured, in one line.
    fn heading(&self) -> String {
        let mut text = format!(
            "{} rows, keys of 8 bytes, values of {} (half zeros), batches of {}, seed {}, cache {} MB",
            self.rows,
            self.value_bytes,
            self.batch,
            self.seed,
            self.cache_bytes >> 20
        );
        text += if self.log { ", log synced every 100 ms" } else { ", no log" };
        if let Some(shape) = self.zipfian {
            text += &format!(", zipfian keys of shape {shape}");
        }
        match self.memory_bytes {
            Some(bytes) => text += &format!(", memory with page cache {} MB (cgroup)", bytes >> 20),
            None if self.direct_io => text += ", memory not bounded: direct I/O where the engine has it",
            None => {}
        }
        text
    }
}
