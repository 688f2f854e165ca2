//! Which state a snapshot shows, and which snapshots are held.
//!
//! A snapshot begins its transaction without a lock and reads the state record through it; that names the shape, whose
//! tables are kept here. I2: the writer announces a new shape before it commits it, and a shape is forgotten only when it
//! is neither the newest nor held; a snapshot holds the newest committed shape before it begins, so what it finds in its
//! record is that one or a later one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::adapter::StateHolds;
use parking_lot::Mutex;

use crate::raw::Table;
use crate::records::State;

pub(crate) type Map = HashMap<TreeId, Table>;
pub(crate) type Tables = Arc<Map>;

pub(crate) struct Published {
    inner: Mutex<Inner>,
}

struct Inner {
    committed: State,
    /// By shape: the committed one, the announced one, and all since the oldest held.
    tables: BTreeMap<u64, Tables>,
    /// Shapes that snapshots hold.
    held: StateHolds,
}

impl Published {
    pub(crate) fn new(state: State, tables: Tables) -> Published {
        let tables = BTreeMap::from([(state.shape, tables)]);
        Published { inner: Mutex::new(Inner { committed: state, tables, held: StateHolds::default() }) }
    }

    /// The newest committed state.
    pub(crate) fn committed(&self) -> State {
        self.inner.lock().committed
    }

    /// Called by the writer before it commits another shape.
    pub(crate) fn announce(&self, shape: u64, tables: Tables) {
        self.inner.lock().tables.insert(shape, tables);
    }

    /// Called by the writer after it committed.
    pub(crate) fn settle(&self, state: State) {
        let mut inner = self.inner.lock();
        inner.committed = state;
        inner.forget();
    }

    /// Holds the committed shape until [`Published::release`].
    pub(crate) fn hold(&self) -> u64 {
        let mut inner = self.inner.lock();
        let shape = inner.committed.shape;
        inner.held.hold(shape);
        shape
    }

    pub(crate) fn tables(&self, shape: u64) -> Option<Tables> {
        self.inner.lock().tables.get(&shape).cloned()
    }

    pub(crate) fn release(&self, shape: u64) {
        let mut inner = self.inner.lock();
        if inner.held.release(shape) {
            inner.forget();
        }
    }

    /// Returns true if a snapshot may be held that shows a shape before this one.
    pub(crate) fn held_before(&self, shape: u64) -> bool {
        self.inner.lock().held.oldest().is_some_and(|oldest| oldest < shape)
    }

    pub(crate) fn held(&self) -> u64 {
        self.inner.lock().held.count()
    }
}

impl Inner {
    fn forget(&mut self) {
        let oldest = self.held.oldest().unwrap_or(self.committed.shape).min(self.committed.shape);
        while self.tables.first_key_value().is_some_and(|(shape, _)| *shape < oldest) {
            self.tables.pop_first();
        }
    }
}
