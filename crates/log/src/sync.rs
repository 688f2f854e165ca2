//! Group fsync: the first waiter becomes the leader and syncs for everybody who has appended by then; the others sleep.
//!
//! States of a position: written (`appended`), covered by a finished sync (`durable`). `durable <= appended` always.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arbor_base::Position;

use crate::Result;
use crate::log::Shared;

#[derive(Debug, Default)]
pub(crate) struct SyncState {
    durable: AtomicU64,
    /// Whether a leader is at work.
    leading: Mutex<bool>,
    done: Condvar,
}

impl SyncState {
    pub fn new(durable: u64) -> SyncState {
        SyncState { durable: durable.into(), ..SyncState::default() }
    }

    pub fn durable(&self) -> u64 {
        self.durable.load(Acquire)
    }

    fn leading(&self) -> MutexGuard<'_, bool> {
        self.leading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps while another leads; answers whether the caller leads now (or else `position` is durable).
    fn lead_or_wait(&self, position: u64, poisoned: impl Fn() -> Result<()>) -> Result<bool> {
        let mut leading = self.leading();
        loop {
            if self.durable() >= position {
                return Ok(false);
            }
            poisoned()?;
            if !*leading {
                *leading = true;
                return Ok(true);
            }
            leading = self.done.wait(leading).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Ends the leadership, also when the leader panics.
struct Leadership<'a>(&'a SyncState);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        *self.0.leading() = false;
        self.0.done.notify_all();
    }
}

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

/// What the background thread sleeps on.
#[derive(Debug)]
pub(crate) struct Alarm {
    state: Mutex<AlarmState>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct AlarmState {
    /// Something was appended since the last round.
    dirty: bool,
    /// Somebody wants the sync now.
    requested: bool,
    closing: bool,
    /// From the first append that nobody has synced to the sync.
    interval: Duration,
}

impl Alarm {
    pub fn new(interval: Duration) -> Alarm {
        Alarm { state: Mutex::new(AlarmState { interval, ..AlarmState::default() }), rung: Condvar::new() }
    }

    pub fn interval(&self) -> Duration {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).interval
    }

    /// A shorter interval counts for what waits already.
    pub fn set_interval(&self, interval: Duration) {
        self.change(|state| state.interval = interval);
    }

    fn change(&self, change: impl FnOnce(&mut AlarmState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.rung.notify_all();
    }

    pub fn appended(&self) {
        self.change(|state| state.dirty = true);
    }

    pub fn request(&self) {
        self.change(|state| state.requested = true);
    }

    pub fn close(&self) {
        self.change(|state| state.closing = true);
    }

    /// Sleeps until a sync is due; false when the log closes.
    fn wait(&self) -> bool {
        let mut dirty_since = None;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            if state.dirty {
                dirty_since.get_or_insert(now);
            }
            // None, too, for an interval beyond what the clock can say.
            let deadline = dirty_since.and_then(|since: Instant| since.checked_add(state.interval));
            if state.closing {
                return false;
            }
            if state.requested || deadline.is_some_and(|deadline| deadline <= now) {
                (state.dirty, state.requested) = (false, false);
                return true;
            }
            state = match deadline {
                None => self.rung.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(now);
                    self.rung.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
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
