//! Group fsync: the first waiter becomes the leader and syncs everything appended by then; the others sleep.
//!
//! States of a position: written (`appended`), covered by a finished sync (`durable`). `durable <= appended` always.

use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Instant;

use arbor_base::Position;

use crate::shared::Shared;
use crate::sync_state::Leadership;
use crate::{Error, Result};

impl Shared {
    /// Returns when `position`, which was appended, is durable, and the listener knows it: readers of the history see no further than that.
    pub(crate) fn sync_to(&self, position: u64) -> Result<()> {
        self.sync_or_wait(position)?;
        if self.notified.load(Acquire) < position {
            // Another thread's sync, which is about to notify it.
            self.notify_listener();
        }
        Ok(())
    }

    fn sync_or_wait(&self, position: u64) -> Result<()> {
        if self.sync.durable() >= position {
            return Ok(());
        }
        let generation = self.cuts.generation();
        let check = || self.require_sound().and_then(|()| self.require_uncut(position, generation));
        if self.sync.lead_or_wait(position, check)? {
            let leadership = Leadership(&self.sync);
            // A cut that came first has made the position one that a sync may never reach.
            self.require_uncut(position, generation)?;
            self.sync_now()?;
            drop(leadership);
            self.notify_listener();
        }
        self.require_uncut(position, generation)
    }

    /// Errors: the record was cut off since; another one may be in its place.
    fn require_uncut(&self, position: u64, generation: u64) -> Result<()> {
        if self.cuts.generation() == generation || position <= self.cuts.kept_since(generation) {
            return Ok(());
        }
        Err(Error::Cut { position: Position(position), last: self.appended() })
    }

    /// Syncs everything that is appended when the call begins. Only the leader calls this.
    fn sync_now(&self) -> Result<()> {
        let (segments, target) = self.writer().to_sync();
        let began = Instant::now();
        for segment in &segments {
            if let Err(error) = segment.file.sync_data() {
                return Err(self.poison(error.to_string()));
            }
        }
        self.counters.synced(began.elapsed());
        if let Some(current) = segments.last() {
            self.writer().synced(current.sequence());
        }
        // A failed sync on another thread may have dropped what this one seemed to cover (D2).
        self.require_sound()?;
        let before = self.sync.durable.fetch_max(target, AcqRel);
        let appended = self.appended().0;
        assert!(before.max(target) <= appended, "durable {} beyond appended {appended}", before.max(target));
        Ok(())
    }
}

/// Runs the background thread: it syncs `commit_interval` after the first append that is not synced yet.
pub(crate) fn run(shared: &Shared) {
    while shared.alarm.wait() {
        // After a failure, the append that needs the segment retries and reports it.
        let _ = shared.prepare_segment();
        let Position(appended) = shared.appended();
        // A failure has poisoned the log; the next append or wait reports it.
        if shared.sync_to(appended).is_err() {
            return;
        }
        shared.rearm();
    }
}
