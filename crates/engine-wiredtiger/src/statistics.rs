//! Statistics of the engine and of WiredTiger.
//!
//! `counters` are all of WiredTiger's statistics, by the descriptions that MongoDB's serverStatus shows under
//! `wiredTiger` too: `cache: bytes currently in the cache` is `wiredTiger.cache["bytes currently in the cache"]` there.
//! The engine's own come before them under `arbor: `.

use std::sync::atomic::Ordering;

use arbor_base::TreeId;
use arbor_engine::{EngineStats, Error, Result, TreeStats};

use crate::core::Core;
use crate::directory;

const CACHE_BYTES: &str = "cache: bytes currently in the cache";
const FREE_BYTES: &str = "block-manager: file bytes available for reuse";

impl Core {
    pub(crate) fn stats(&self) -> Result<EngineStats> {
        let (trees, pending_drops) = {
            let writer = self.lock_writer();
            (writer.trees.len() as u64, writer.pending_drops.len() as u64)
        };
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let own = [
            ("trees", trees),
            ("tables waiting to be dropped", pending_drops),
            ("tables dropped", load(&self.counters.swept_tables)),
            ("transactions committed", load(&self.counters.transactions)),
            ("transactions tried again", load(&self.counters.rollbacks)),
            ("checkpoints", load(&self.counters.checkpoints)),
            ("checkpoint ms", load(&self.counters.checkpoint_ms)),
            ("snapshots held", self.published.held()),
            ("background errors", load(&self.counters.background_errors)),
            ("errors reported", self.connection.errors()),
        ];
        let counters = self.connection.service_session()?.statistics(None)?;
        let cache_bytes = cache_bytes_of(&counters);
        Ok(EngineStats {
            disk_bytes: directory::disk_bytes(self.connection.dir())?,
            free_bytes: 0,
            cache_bytes,
            counters: own.into_iter().chain(counters).collect(),
        })
    }

    /// Bytes in the cache, which may be more than its size.
    pub(crate) fn cache_used_bytes(&self) -> Result<u64> {
        Ok(cache_bytes_of(&self.connection.service_session()?.statistics(None)?))
    }

    pub(crate) fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        let record = self.lock_writer().trees.get(&tree).copied().ok_or(Error::UnknownTree(tree))?;
        let statistics = self.connection.service_session()?.statistics(Some(record.table))?;
        let free_bytes = statistics.iter().find(|(name, _)| *name == FREE_BYTES).map_or(0, |(_, bytes)| *bytes);
        let disk_bytes = self.file_bytes(record.table);
        Ok(TreeStats { keys: record.keys, data_bytes: record.bytes, disk_bytes, free_bytes })
    }
}

fn cache_bytes_of(counters: &[(&'static str, u64)]) -> u64 {
    counters.iter().find(|(name, _)| *name == CACHE_BYTES).map_or(0, |(_, bytes)| *bytes)
}
