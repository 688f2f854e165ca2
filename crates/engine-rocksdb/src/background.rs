//! The two threads of an engine: one makes checkpoints, one compacts ranges whose rows are gone.
//!
//! A checkpoint begins when the memtables are full, and [`RECLAIM_AFTER`] a drop or a range delete, because the space
//! returns after a checkpoint only. Both threads end when the engine is dropped; a compaction that runs is cancelled.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_engine::Result;
use arbor_engine::adapter::Worker;

use crate::core::Core;

const RECLAIM_AFTER: Duration = Duration::from_secs(1);

/// Stops and joins both when dropped.
pub(crate) struct Background {
    _threads: [Worker; 2],
    core: Arc<Core>,
}

impl Background {
    pub(crate) fn start(core: &Arc<Core>) -> Result<Background> {
        let worker = |name, run: fn(&Core)| {
            let core = core.clone();
            Worker::start(name, move || run(&core))
        };
        let flushes = worker("rocksdb-flush", keep_flushed)?;
        // Where the second one does not start, the first ends before it is joined.
        let sweeps = worker("rocksdb-sweep", compact_gone_rows).inspect_err(|_| core.alarm.stop())?;
        Ok(Background { core: core.clone(), _threads: [flushes, sweeps] })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.alarm.stop();
        self.core.compactor.stop();
        self.core.db.cancel_compactions();
    }
}

fn keep_flushed(core: &Core) {
    let mut reclaim_at = None;
    while core.alarm.wait(reclaim_at) {
        let result = match reclaim_at {
            _ if core.wants_checkpoint() => core.checkpoint().map(drop),
            Some(at) if at <= Instant::now() => {
                reclaim_at = None;
                core.reclaim()
            }
            _ => Ok(()),
        };
        if result.is_err() {
            // The next `checkpoint` or `apply` of the engine's user returns the same error.
            core.counters.background_errors.fetch_add(1, Ordering::Relaxed);
        }
        if core.wants_sweep() || core.has_pending_drops() {
            reclaim_at = reclaim_at.or_else(|| Some(Instant::now() + RECLAIM_AFTER));
        }
    }
}

fn compact_gone_rows(core: &Core) {
    while let Some(span) = core.compactor.next() {
        if core.compact_span(&span, &|| false).is_err() {
            core.counters.background_errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}
