//! The engine as the trait has it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_base::{Position, TreeId};
use arbor_engine::{
    Barrier, Batch, Capabilities, Engine, EngineStats, Error, Result, Snapshot, TreeOptions, TreeStats,
};

use crate::core::Core;
use crate::options::{COMPRESSORS, WiredTigerOptions};
use crate::pacer::Pacer;
use crate::raw::Connection;
use crate::snapshot::WiredTigerSnapshot;
use crate::{bulk, directory};

/// Part of the cache that may be written after a held snapshot: the pages that hold what it does not show stay in the cache, and
/// from a fifth of it on writers evict.
const HELD_CACHE_PART: u64 = 8;

/// The WiredTiger engine. Dropping it keeps the state of its last checkpoint, or of a later stable generation.
pub struct WiredTigerEngine {
    core: Arc<Core>,
    /// Stops and joins its thread when dropped.
    _pacer: Pacer,
}

impl WiredTigerEngine {
    /// Opens or makes the engine in a directory, in the state of its last checkpoint.
    pub fn open(dir: &Path, options: WiredTigerOptions) -> Result<WiredTigerEngine> {
        options.check()?;
        directory::prepare(dir)?;
        let connection = Connection::open(dir, &options.open_config())?;
        let core = Arc::new(Core::new(&connection, options)?);
        core.drop_orphans()?;
        core.check_tree_options(&TreeOptions::default())?;
        let pacer = Pacer::start(&core)?;
        Ok(WiredTigerEngine { core, _pacer: pacer })
    }
}

impl Engine for WiredTigerEngine {
    fn name(&self) -> &'static str {
        "wiredTiger"
    }

    fn applied(&self) -> Position {
        Position(self.core.applied.load(Ordering::Acquire))
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.core.apply(batches)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(WiredTigerSnapshot::new(&self.core.reading)?))
    }

    fn checkpoint(&self) -> Result<Position> {
        self.core.checkpoint()
    }

    fn set_barrier(&self, barrier: Barrier) {
        self.core.barrier.set(barrier);
    }

    fn durable(&self) -> Position {
        Position(self.core.durable.load(Ordering::Acquire))
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        bulk::load(&self.core, tree, rows)
    }

    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        self.core.check_tree_options(options)
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        let mut trees: Vec<TreeId> = self.core.lock_writer().trees.keys().copied().collect();
        trees.sort_unstable();
        Ok(trees)
    }

    fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.core.compact(tree, stop)
    }

    fn set_parameter(&self, name: &str, value: &str) -> Result<()> {
        match name {
            "cacheBytes" => self.core.set_cache_bytes(value),
            "runtimeConfig" => self.core.reconfigure(name, value),
            _ => {
                let reason = "the engine wiredTiger cannot change it while it runs".to_owned();
                Err(Error::InvalidOption { name: name.to_owned(), reason })
            }
        }
    }

    fn parameter(&self, name: &str) -> Option<String> {
        match name {
            "cacheBytes" => Some(self.core.cache_bytes().to_string()),
            "cacheUsedBytes" => Some(self.core.cache_used_bytes().ok()?.to_string()),
            "runtimeConfig" => Some(format!("cache_size={}", self.core.cache_bytes())),
            _ => None,
        }
    }

    fn stats(&self) -> Result<EngineStats> {
        self.core.stats()
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        self.core.tree_stats(tree)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            update_messages: false,
            exact_counts: false,
            held_snapshots_keep_space: false,
            held_snapshot_bytes_max: Some(self.core.cache_bytes() / HELD_CACHE_PART),
            cheap_range_delete: true,
            compression: COMPRESSORS,
        }
    }
}
