//! Group fsync: the first waiter becomes the leader and syncs for everybody who has appended by then; the others sleep.
//!
//! States of a position: written (`appended`), covered by a finished sync (`durable`). `durable <= appended` always.

use std::sync::atomic::Ordering::AcqRel;
use std::time::Instant;

use arbor_base::Position;

use crate::Result;
use crate::shared::Shared;
use crate::sync_state::Leadership;

impl Shared {
    /// Returns when `position`, which was appended, is durable.
    pub fn sync_to(&self, position: u64) -> Result<()> {
        if self.sync.durable() >= position || !self.sync.lead_or_wait(position, || self.require_sound())? {
            return Ok(());
        }
        let leadership = Leadership(&self.sync);
        self.sync_now()?;
        drop(leadership);
        self.tell_listener();
        Ok(())
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

/// The background thread: syncs `commit_interval` after the first append that nobody has synced yet.
pub(crate) fn run(shared: &Shared) {
    while shared.alarm.wait() {
        // A failure is met again by the append that needs the segment.
        let _ = shared.prepare_segment();
        let Position(appended) = shared.appended();
        // A failure has poisoned the log; the next append or wait reports it.
        if shared.sync_to(appended).is_err() {
            return;
        }
        shared.rearm();
    }
}
