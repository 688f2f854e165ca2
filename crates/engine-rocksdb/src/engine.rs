//! The engine as the trait has it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_base::{Position, TreeId};
use arbor_engine::{
    Barrier, Batch, Capabilities, Engine, EngineStats, Error, Result, Snapshot, TreeOptions, TreeStats,
};

use crate::background::Background;
use crate::core::Core;
use crate::options::{RocksOptions, check_tree, compression_list};
use crate::raw::Db;
use crate::snapshot::RocksSnapshot;
use crate::{bulk, directory};

/// The RocksDB engine. Dropping it keeps the state of its last checkpoint.
pub struct RocksEngine {
    core: Arc<Core>,
    /// Stops and joins its threads when dropped.
    _background: Background,
}

impl RocksEngine {
    /// Opens or makes the engine in a directory, in the state of its last checkpoint.
    pub fn open(dir: &Path, options: RocksOptions) -> Result<RocksEngine> {
        directory::prepare(dir)?;
        let db = Arc::new(Db::open(dir, &options)?);
        directory::remove_load_files(dir)?;
        let core = Arc::new(Core::new(db, options)?);
        core.clear_unfinished_loads()?;
        let background = Background::start(&core)?;
        core.alarm.ring();
        Ok(RocksEngine { core, _background: background })
    }
}

impl Engine for RocksEngine {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn applied(&self) -> Position {
        Position(self.core.applied.load(Ordering::Acquire))
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.core.edit(|edit| batches.iter().try_for_each(|batch| edit.apply(batch)))
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(RocksSnapshot::new(&self.core.db, &self.core.published, &self.core.expansion)?))
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
        check_tree(options, self.core.compression_name())
    }

    fn wait_for_room(&self) {
        self.core.wait_for_room();
    }

    fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.core.compact_tree(tree, stop)
    }

    fn set_parameter(&self, name: &str, value: &str) -> Result<()> {
        self.core.set_parameter(name, value)
    }

    fn parameter(&self, name: &str) -> Option<String> {
        self.core.parameter(name)
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        let mut trees: Vec<TreeId> = self.core.lock_writer().trees.keys().copied().collect();
        trees.sort_unstable();
        Ok(trees)
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(self.core.stats())
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        let content =
            self.core.lock_writer().trees.get(&tree).map(|tree| tree.content).ok_or(Error::UnknownTree(tree))?;
        let disk_bytes = self.core.db.file_bytes(&content.prefix(), &content.end())?;
        let whole = self.snapshot()?.estimate(tree, &[], None)?;
        Ok(TreeStats { keys: whole.keys, data_bytes: whole.bytes, disk_bytes, free_bytes: 0 })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            update_messages: self.core.options.updates.is_some(),
            exact_counts: false,
            held_snapshots_keep_space: false,
            held_snapshot_bytes_max: None,
            cheap_range_delete: true,
            compression: compression_list(self.core.compression_name()),
        }
    }
}
