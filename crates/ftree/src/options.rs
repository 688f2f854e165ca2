//! Settings of the forest and of its trees.

use std::sync::Arc;

use arbor_disk::Disk;
use arbor_engine::UpdateFunction;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Settings of a whole forest. Nothing of this is stored: each opening may choose again.
#[derive(Clone)]
pub struct Options {
    pub disk: Arc<dyn Disk>,
    /// The one memory budget: cached blocks, indexes and filters, memtables, buffers of background work.
    pub memory_bytes_max: u64,
    /// A memtable that has grown to this is frozen.
    pub memtable_bytes: u64,
    /// Background threads. 0: `apply` does all work itself, one deterministic step after another (tests).
    pub threads: usize,
    /// A checkpoint is made when this much was absorbed since the last one,
    pub checkpoint_bytes: u64,
    /// or when something was absorbed and this much time has passed. Zero: only when it is asked for.
    pub checkpoint_interval_ms: u64,
    /// Reads and writes past the page cache.
    pub direct_io: bool,
    /// Resolves update messages.
    pub updates: Option<Arc<dyn UpdateFunction>>,
    /// Settings of trees that name no others.
    pub tree: TreeSettings,
}

/// Compression of blocks; stored with each block, so it may change at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    None,
    Lz4,
    Zstd(i32),
    /// `Zstd(1)` for blocks of which it saves a third, `None` for others.
    Auto,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeSettings {
    /// Codec of leaves. Runs take lz4 unless this is `None`.
    pub codec: Codec,
    /// Uncompressed bytes of one block, the unit of reading (`readPageSize`).
    pub block_bytes: u32,
    /// Uncompressed bytes of a leaf that are aimed at; it splits at 1.5 times (`pageSize`).
    pub leaf_bytes: u32,
    /// Children of an inner node at most.
    pub fanout: u32,
    /// Buffered part of the leaf bytes, in percent, at which flushing sets in: 5, 12 or 20 (`writeBias` low, normal, high).
    pub buffer_percent: u32,
    /// Filters on leaves, for trees that are asked for keys that are not there.
    pub leaf_filters: bool,
    /// Values longer than this are in extents of their own.
    pub blob_bytes: u32,
    /// A run that a flush writes covers further slots until it holds this much.
    pub run_bytes: u32,
}

impl TreeSettings {
    /// Identifies leaves that were written with these settings, to find those that would be written differently. Never 0.
    pub fn mark(&self) -> u32 {
        let (codec, level) = match self.codec {
            Codec::None => (0, 0),
            Codec::Lz4 => (1, 0),
            Codec::Zstd(level) => (2, level as u32),
            Codec::Auto => (3, 0),
        };
        let settings = [codec, level, self.block_bytes, self.leaf_bytes, u32::from(self.leaf_filters), self.blob_bytes];
        let bytes: Vec<u8> = settings.into_iter().flat_map(u32::to_le_bytes).collect();
        (xxhash_rust::xxh3::xxh3_64(&bytes) as u32).max(1)
    }
}

impl Default for TreeSettings {
    fn default() -> TreeSettings {
        TreeSettings {
            codec: Codec::Auto,
            block_bytes: 8 * KIB as u32,
            leaf_bytes: MIB as u32,
            fanout: 64,
            buffer_percent: 12,
            leaf_filters: true,
            blob_bytes: 32 * KIB as u32,
            run_bytes: 48 * KIB as u32,
        }
    }
}

impl Options {
    pub fn new(disk: Arc<dyn Disk>, memory_bytes_max: u64) -> Options {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Options {
            disk,
            memory_bytes_max,
            // A larger one makes fewer and larger runs; it means more to replay after a crash, and costs more cache misses per entry.
            memtable_bytes: (memory_bytes_max / 8).clamp(MIB, 32 * MIB),
            threads: (cores / 2).max(2),
            checkpoint_bytes: 64 * MIB,
            checkpoint_interval_ms: 10_000,
            direct_io: false,
            updates: None,
            tree: TreeSettings::default(),
        }
    }
}
