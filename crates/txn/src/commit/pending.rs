//! Batches that the log holds and the engine had no space for.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_base::Position;

use super::CommitPath;
use crate::group::Committed;
use crate::{Error, Result};

/// Interval at which a waiting committer retries pending batches.
const APPLY_RETRY: Duration = Duration::from_millis(100);

impl CommitPath {
    /// Applies what the log holds and the engine had no space for. `Ok` when nothing is left.
    pub fn apply_pending(&self, committed: &mut Committed) -> Result<()> {
        let Some(last) = committed.pending.last().map(|batch| batch.position) else { return Ok(()) };
        let applied = self.engine.applied();
        committed.pending.retain(|batch| batch.position > applied);
        let rises = committed.pending.is_sorted_by(|one, next| one.position < next.position);
        assert!(rises, "pending batches are applied in the order of the log");
        self.apply(&committed.pending)?;
        committed.pending = Vec::new();
        // Behind void links nothing was logged that counts.
        self.logged.fetch_max(last.0, Ordering::AcqRel);
        self.publish(last);
        let _guard = self.applied_lock.lock();
        self.applied.notify_all();
        Ok(())
    }

    pub(super) fn wait_applied(&self, position: Position) -> Result<Position> {
        let deadline = Instant::now() + self.options.apply_wait;
        while self.published() < position {
            if self.check_open().is_err() || Instant::now() >= deadline {
                return Err(Error::CommittedNotApplied { position });
            }
            self.applied.wait_for(&mut self.applied_lock.lock(), APPLY_RETRY);
            self.retry_pending();
        }
        Ok(position)
    }

    /// Tries pending batches again unless a leader is at work, which does so itself.
    pub fn retry_pending(&self) {
        let Some(mut committed) = self.committed.try_lock() else { return };
        if let Err(Error::OutOfSpace { .. }) = self.apply_pending(&mut committed)
            && self.space_exhausted()
        {
            let _still_full = self.apply_pending(&mut committed);
        }
    }
}
