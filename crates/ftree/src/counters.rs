//! Counters of the engine's work, cheap enough for the hottest paths.
//!
//! Each counter exists once per shard; a thread adds to the shard it was given at its first count, so counting does not
//! move cache lines between cores. Reading sums the shards.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Counter { $($(#[$doc])* $variant,)+ }

        impl Counter {
            pub const ALL: &[Counter] = &[$(Counter::$variant,)+];

            pub fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)+ }
            }
        }
    };
}

counters! {
    LeafBlockHits => "leaf block hits",
    LeafBlockMisses => "leaf block misses",
    RunBlockHits => "run block hits",
    RunBlockMisses => "run block misses",
    ReadsStarted => "reads started in advance",
    BlocksPrefetched => "blocks read before their get",
    /// Bodies of tables: index, filter, range tombstones.
    BodyHits => "body hits",
    BodyMisses => "body misses",
    FilterNegatives => "filter negatives",
    FilterFalsePositives => "filter false positives",
    BlockBytesRead => "bytes read for blocks",
    BodyBytesRead => "bytes read for bodies",
    ScanBytesRead => "bytes read in sequence",
    NodeBytesRead => "bytes read for nodes",
    BlobBytesRead => "bytes read for blobs",
    LeafBytesWritten => "bytes written to leaves",
    RunBytesWritten => "bytes written to runs",
    NodeBytesWritten => "bytes written to nodes",
    BlobBytesWritten => "bytes written to blobs",
    CatalogBytesWritten => "bytes written to catalogs",
    AbsorbJobs => "absorb jobs",
    CombineJobs => "combine jobs",
    PushJobs => "push jobs",
    LeafJobs => "leaf jobs",
    InstallsDiscarded => "installs discarded",
    AppliedBytes => "bytes applied",
    AbsorbedBytes => "bytes absorbed",
    AbsorbedIntoLeaves => "bytes absorbed into leaves",
    FlushedBytesToLeaves => "bytes flushed to leaves",
    FlushedBytesToLevel1 => "bytes flushed to level 1",
    FlushedBytesToLevel2 => "bytes flushed to level 2",
    FlushedBytesToLevel3 => "bytes flushed to level 3 and above",
    CompactionJobs => "compaction jobs",
    TablesMoved => "tables moved",
    BlocksRipened => "blocks ripened",
    PaceSleepUs => "pacing sleep us",
    PaceSleeps => "pacing sleeps",
    Checkpoints => "checkpoints",
    CheckpointMs => "checkpoint ms",
    UpdatesFailed => "updates failed",
}

impl Counter {
    /// Bytes flushed into nodes of this level (0: leaves).
    pub fn flushed_to(level: u8) -> Counter {
        match level {
            0 => Counter::FlushedBytesToLeaves,
            1 => Counter::FlushedBytesToLevel1,
            2 => Counter::FlushedBytesToLevel2,
            _ => Counter::FlushedBytesToLevel3,
        }
    }
}

const SHARDS: usize = 16;
const COUNTERS: usize = Counter::ALL.len();

#[repr(align(128))]
struct Shard([AtomicU64; COUNTERS]);

pub struct Counters {
    shards: Box<[Shard]>,
}

impl Default for Counters {
    fn default() -> Counters {
        let shard = || Shard([const { AtomicU64::new(0) }; COUNTERS]);
        Counters { shards: (0..SHARDS).map(|_| shard()).collect() }
    }
}

impl Counters {
    pub fn add(&self, counter: Counter, count: u64) {
        if let Some(cell) =
            self.shards.get(arbor_base::thread_number() % SHARDS).and_then(|shard| shard.0.get(counter as usize))
        {
            cell.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub fn get(&self, counter: Counter) -> u64 {
        let cells = self.shards.iter().filter_map(|shard| shard.0.get(counter as usize));
        cells.map(|cell| cell.load(Ordering::Relaxed)).sum()
    }

    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        Counter::ALL.iter().map(|counter| (counter.name(), self.get(*counter))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_are_summed() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|_| counters.add(Counter::LeafBlockHits, 2)));
            }
        });
        counters.add(Counter::flushed_to(7), 5);
        assert_eq!(counters.get(Counter::LeafBlockHits), 4000);
        let snapshot = counters.snapshot();
        assert_eq!(snapshot.len(), Counter::ALL.len());
        assert!(snapshot.contains(&("bytes flushed to level 3 and above", 5)));
    }
}
