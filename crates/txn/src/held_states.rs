//! The held states of the history window, and their release (see `past.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_engine::Snapshot;
use parking_lot::{Mutex, MutexGuard};

use crate::ReadView;

/// States held because a client asked; the oldest of them go first.
const ASKED_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Past {
    held: Mutex<RetainedStates>,
    /// Bytes that were logged at the last check whether states are to be released.
    pub checked_at: AtomicU64,
    /// A state was held behind the first record.
    pub has_begun: AtomicBool,
}

#[derive(Default)]
pub(crate) struct RetainedStates {
    /// In the order of their times.
    pub states: VecDeque<State>,
    pub made: VecDeque<(u64, ReadView)>,
    pub log_bytes: u64,
    /// Per bulk load that has ended: the time of the last commit by then.
    pub loads: Vec<u64>,
}

pub(crate) struct State {
    /// Time of the last commit that it shows.
    pub time: u64,
    pub since: Instant,
    pub asked_for: bool,
    /// Bytes that were logged by then.
    pub log_bytes: u64,
    /// Number of bulk loads that had ended before the snapshot was taken.
    pub loads: usize,
    pub snapshot: Arc<dyn Snapshot>,
}

impl Past {
    pub(crate) fn lock(&self) -> MutexGuard<'_, RetainedStates> {
        // States are whole before they are pushed.
        self.held.lock()
    }
}

impl RetainedStates {
    /// Adds a state. States that threads take at the same time may come in any order.
    pub(crate) fn hold(&mut self, mut state: State) {
        let at = self.states.partition_point(|held| held.time < state.time);
        match self.states.get_mut(at) {
            Some(held) if held.time == state.time => {
                // One that was not asked for stays until the window has passed it.
                held.asked_for &= state.asked_for;
                if state.age() > held.age() {
                    (state.since, state.asked_for) = (held.since, held.asked_for);
                    *held = state;
                }
            }
            _ => self.states.insert(at, state),
        }
        debug_assert!(
            self.states.iter().is_sorted_by(|one, next| one.time < next.time),
            "one state of a time, in order"
        );
    }

    pub(crate) fn forget(&mut self, window: Duration) {
        // The first one after the window's beginning needs the one before it.
        while self.states.get(1).is_some_and(|second| second.since.elapsed() >= window) {
            self.states.pop_front();
        }
        let asked = self.states.iter().filter(|state| state.asked_for).count();
        for _ in ASKED_MAX..asked {
            if let Some(at) = self.states.iter().position(|state| state.asked_for) {
                self.states.remove(at);
            }
        }
        if let Some(oldest) = self.states.front() {
            self.made.retain(|(time, _)| *time >= oldest.time);
        }
    }

    /// Takes out the states that are older than this many bytes of log.
    pub(crate) fn release(&mut self, log_bytes: u64) -> Vec<State> {
        let count = self.states.iter().take_while(|state| state.log_bytes < log_bytes).count();
        let released = self.states.drain(..count).collect();
        let oldest = self.states.front().map_or(u64::MAX, |state| state.time);
        self.made.retain(|(time, _)| *time >= oldest);
        released
    }

    /// The newest state that is not newer than `time`, if it has all that was loaded before then (P1).
    pub(crate) fn base(&self, time: u64) -> Option<(u64, Arc<dyn Snapshot>)> {
        let behind = self.states.partition_point(|state| state.time <= time);
        let state = self.states.get(behind.checked_sub(1)?)?;
        let has_loads = self.loads.get(state.loads).is_none_or(|loaded_at| time <= *loaded_at);
        has_loads.then(|| (state.time, state.snapshot.clone()))
    }
}

impl State {
    /// Returns the age order of two states of one time: the greater one was taken later.
    fn age(&self) -> (usize, Position) {
        (self.loads, self.snapshot.position())
    }
}
