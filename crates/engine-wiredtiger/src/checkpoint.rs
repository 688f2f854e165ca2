//! Checkpoints: what survives a crash is the state of WiredTiger's last checkpoint.
//!
//! WiredTiger makes checkpoints when it is asked to, when it compacts, and when it closes, and each holds what was
//! committed up to the stable timestamp, no more. Timestamps are generations. So the log's barrier is asked before the
//! stable generation moves, and never else: I5: the barrier returned `Ok` for the position of the stable generation.
//!
//! The stable generation is also the oldest that WiredTiger keeps for checkpoints. What is newer cannot leave its cache
//! for the tree's file, so `pace` moves it on between checkpoints.
//!
//! A checkpoint becomes durable as a whole: its last step renames `WiredTiger.turtle`, which names the metadata, which
//! names the blocks of all tables. A crash before that leaves the one before.

use std::sync::atomic::Ordering;
use std::time::Instant;

use arbor_base::Position;
use arbor_engine::Result;

use crate::core::{Core, Stable};

impl Core {
    pub(crate) fn checkpoint(&self) -> Result<Position> {
        let mut session = self.flushing.lock();
        let begin = Instant::now();
        drop(self.usable_writer()?);
        let stable = self.stabilize()?;
        if stable.generation > self.flushed_generation.load(Ordering::Acquire) {
            session.checkpoint().map_err(|fault| self.judge(&mut self.lock_writer(), fault.into()))?;
        }
        self.flushed_generation.store(stable.generation, Ordering::Release);
        self.durable.store(stable.position.0, Ordering::Release);
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.counters.checkpoint_ms.fetch_add(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.sweep();
        Ok(stable.position)
    }

    /// Makes the newest committed generation stable, once the log has its position.
    pub(crate) fn stabilize(&self) -> Result<Stable> {
        let unstable = self.unstable_bytes.load(Ordering::Relaxed);
        let state = self.published.committed();
        self.wait_for_log(state.applied)?;
        let mut stable = self.stable.lock();
        if stable.generation < state.generation {
            self.connection.set_stable(state.generation)?;
            *stable = Stable { generation: state.generation, position: state.applied };
            // What was written meanwhile stays counted; another thread may have counted this down.
            let less = |bytes: u64| Some(bytes.saturating_sub(unstable));
            let _before = self.unstable_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        Ok(*stable)
    }

    fn wait_for_log(&self, position: Position) -> Result<()> {
        self.barrier.wait_for_log(position)
    }
}
