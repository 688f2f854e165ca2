//! Which state a snapshot shows, and which snapshots are held.
//!
//! A snapshot of RocksDB does not say what it shows, so it reads the state record through itself and finds the state of
//! that generation here. I1: while the lock is held, the newest write of RocksDB is that of `current` or of `next`: the
//! writer announces `next` under the lock before it writes, and the announcement before it has become `current` by then.
//! So taking a snapshot never waits for a write.

use std::sync::Arc;

use arbor_base::Position;
use arbor_engine::adapter::StateHolds;
use arbor_engine::{Error, Result};
use parking_lot::Mutex;

use crate::raw::{Db, RawSnapshot};
use crate::records::{self, Trees};

/// State of all trees after one write.
pub(crate) struct State {
    pub generation: u64,
    pub position: Position,
    pub trees: Arc<Trees>,
}

pub(crate) struct Published {
    states: Mutex<States>,
}

struct States {
    current: Arc<State>,
    next: Option<Arc<State>>,
    /// Generations of the held snapshots.
    held: StateHolds,
}

impl Published {
    pub(crate) fn new(state: State) -> Published {
        Published { states: Mutex::new(States { current: Arc::new(state), next: None, held: StateHolds::default() }) }
    }

    /// Called by the writer before it writes.
    pub(crate) fn announce(&self, state: State) {
        self.states.lock().next = Some(Arc::new(state));
    }

    /// Called by the writer after it wrote, or failed to.
    pub(crate) fn settle(&self, written: bool) {
        let mut states = self.states.lock();
        let next = states.next.take();
        if let (true, Some(next)) = (written, next) {
            states.current = next;
        }
    }

    /// Takes a snapshot and counts it as held.
    pub(crate) fn hold(&self, db: &Arc<Db>) -> Result<(RawSnapshot, Arc<State>)> {
        let mut states = self.states.lock();
        let snapshot = RawSnapshot::new(db);
        let generation = records::state(db, Some(&snapshot))?.map(|record| record.generation);
        let known = [Some(&states.current), states.next.as_ref()].into_iter().flatten();
        let state = known.into_iter().find(|state| Some(state.generation) == generation).cloned();
        let state = state.ok_or_else(|| Error::Corrupt {
            place: db.dir().display().to_string(),
            context: format!("the state record names generation {generation:?}, which was not written"),
        })?;
        states.held.hold(state.generation);
        Ok((snapshot, state))
    }

    pub(crate) fn release(&self, generation: u64) {
        self.states.lock().held.release(generation);
    }

    /// Returns true if a snapshot is held that shows a state before this generation.
    pub(crate) fn held_before(&self, generation: u64) -> bool {
        self.states.lock().held.oldest().is_some_and(|oldest| oldest < generation)
    }
}
