//! State of syncing: the durable position, the leader, and the alarm that wakes the background thread.

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::Result;

#[derive(Debug, Default)]
pub(crate) struct SyncState {
    pub(crate) durable: AtomicU64,
    /// A leader is syncing.
    leading: Mutex<bool>,
    done: Condvar,
}

impl SyncState {
    pub(crate) fn new(durable: u64) -> SyncState {
        SyncState { durable: durable.into(), ..SyncState::default() }
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Acquire)
    }

    /// Leads when no other thread does: no sync runs until the returned value is dropped.
    pub(crate) fn lead(&self) -> Leadership<'_> {
        let mut leading = self.leading();
        while *leading {
            self.done.wait(&mut leading);
        }
        *leading = true;
        drop(leading);
        Leadership(self)
    }

    /// Moves the durable position, also backwards. Only the leader calls this.
    pub(crate) fn set(&self, durable: u64) {
        self.durable.store(durable, Release);
    }

    fn leading(&self) -> MutexGuard<'_, bool> {
        self.leading.lock()
    }

    /// Sleeps while another thread leads; returns whether the caller leads now (or else `position` is durable).
    pub(crate) fn lead_or_wait(&self, position: u64, poisoned: impl Fn() -> Result<()>) -> Result<bool> {
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
            self.done.wait(&mut leading);
        }
    }
}

/// Ends the leadership, also when the leader panics.
pub(crate) struct Leadership<'a>(pub &'a SyncState);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        let led = std::mem::replace(&mut *self.0.leading(), false);
        debug_assert!(led, "two threads led the sync");
        self.0.done.notify_all();
    }
}

/// The wake-up of the background thread.
#[derive(Debug)]
pub(crate) struct Alarm {
    state: Mutex<AlarmState>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct AlarmState {
    /// Something was appended since the last round.
    dirty: bool,
    /// A sync is requested now.
    requested: bool,
    closing: bool,
    /// Time from the first append that is not synced to the sync.
    interval: Duration,
}

impl Alarm {
    pub(crate) fn new(interval: Duration) -> Alarm {
        Alarm { state: Mutex::new(AlarmState { interval, ..AlarmState::default() }), rung: Condvar::new() }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.state.lock().interval
    }

    /// A shorter interval counts for what waits already.
    pub(crate) fn set_interval(&self, interval: Duration) {
        self.change(|state| state.interval = interval);
    }

    fn change(&self, change: impl FnOnce(&mut AlarmState)) {
        change(&mut self.state.lock());
        self.rung.notify_all();
    }

    pub(crate) fn appended(&self) {
        self.change(|state| state.dirty = true);
    }

    pub(crate) fn request(&self) {
        self.change(|state| state.requested = true);
    }

    pub(crate) fn close(&self) {
        self.change(|state| state.closing = true);
    }

    /// Sleeps until a sync is due; false when the log closes.
    pub(crate) fn wait(&self) -> bool {
        let mut dirty_since = None;
        let mut state = self.state.lock();
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
            match deadline {
                None => self.rung.wait(&mut state),
                Some(deadline) => drop(self.rung.wait_until(&mut state, deadline)),
            }
        }
    }
}
