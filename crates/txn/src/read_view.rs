//! A state for reading: a snapshot, maybe with writes over it: of a transaction that made the view, or of the log.

use std::borrow::Cow;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, RangeEstimate, Snapshot};

use crate::ledger::LEDGER;
use crate::overlay::Overlay;
use crate::written::Written;
use crate::{CounterId, Error, Result, View, ledger};

/// Taking one touches nothing but the engine. Clones show the same state and share it; it stays as it is until the last of
/// them is dropped.
#[derive(Clone)]
pub struct ReadView {
    snapshot: Arc<dyn Snapshot>,
    position: Position,
    /// Writes over the snapshot; they do not change any more.
    frozen: Option<Arc<Written>>,
}

impl ReadView {
    pub(crate) fn new(snapshot: Arc<dyn Snapshot>) -> ReadView {
        ReadView { position: snapshot.position(), snapshot, frozen: None }
    }

    /// With the writes of a transaction, which are not committed.
    pub(crate) fn frozen(snapshot: Arc<dyn Snapshot>, written: Written) -> ReadView {
        let position = snapshot.position();
        ReadView::replayed(snapshot, written, position)
    }

    /// With all that was committed after the snapshot up to a position.
    pub(crate) fn replayed(snapshot: Arc<dyn Snapshot>, written: Written, position: Position) -> ReadView {
        ReadView { snapshot, position, frozen: (!written.is_empty()).then(|| Arc::new(written)) }
    }

    pub(crate) fn into_parts(self) -> (Arc<dyn Snapshot>, Written) {
        (self.snapshot, self.frozen.map(Arc::unwrap_or_clone).unwrap_or_default())
    }

    /// Returns the state as one snapshot.
    pub(crate) fn into_snapshot(self) -> Arc<dyn Snapshot> {
        if self.frozen.is_none() && self.position == self.snapshot.position() {
            return self.snapshot;
        }
        Arc::new(LaidOver(self))
    }

    /// Releases the rows and keeps the position, for readers that have all they need: a snapshot that is held takes space, in some
    /// engines memory too.
    pub fn released(&self) -> ReadView {
        ReadView::new(Arc::new(Released(self.position)))
    }

    fn overlay(&self) -> Option<Overlay<'_>> {
        self.frozen.as_deref().map(|written| Overlay { snapshot: &*self.snapshot, written })
    }
}

impl View for ReadView {
    fn position(&self) -> Position {
        self.position
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        match self.overlay() {
            None => Ok(self.snapshot.get(tree, key)?),
            Some(overlay) => overlay.get(tree, key),
        }
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        match self.overlay() {
            None => Ok(self.snapshot.cursor(tree)?),
            Some(overlay) => overlay.cursor(tree),
        }
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        match self.overlay() {
            None => Ok(self.snapshot.estimate(tree, from, to)?),
            Some(overlay) => overlay.estimate(tree, from, to),
        }
    }

    fn counter(&self, id: CounterId) -> Result<i64> {
        match self.overlay() {
            None => Ok(ledger::counter_in(self.snapshot.get(LEDGER, &ledger::counter_key(id))?)),
            Some(overlay) => overlay.counter(id),
        }
    }
}

/// Shows no tree.
struct Released(Position);

impl Snapshot for Released {
    fn position(&self) -> Position {
        self.0
    }

    fn get(&self, tree: TreeId, _key: &[u8]) -> arbor_engine::Result<Option<Cow<'_, [u8]>>> {
        Err(arbor_engine::Error::UnknownTree(tree))
    }

    fn cursor(&self, tree: TreeId) -> arbor_engine::Result<Box<dyn Cursor + '_>> {
        Err(arbor_engine::Error::UnknownTree(tree))
    }

    fn estimate(&self, tree: TreeId, _from: &[u8], _to: Option<&[u8]>) -> arbor_engine::Result<RangeEstimate> {
        Err(arbor_engine::Error::UnknownTree(tree))
    }
}

/// A state that is not one of the engine, as a snapshot.
struct LaidOver(ReadView);

fn of_engine(error: Error) -> arbor_engine::Error {
    match error {
        Error::Engine(error) => error,
        Error::UnknownTree(tree) => arbor_engine::Error::UnknownTree(tree),
        error => arbor_engine::Error::Other(error.to_string()),
    }
}

impl Snapshot for LaidOver {
    fn position(&self) -> Position {
        View::position(&self.0)
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> arbor_engine::Result<Option<Cow<'_, [u8]>>> {
        View::get(&self.0, tree, key).map_err(of_engine)
    }

    fn cursor(&self, tree: TreeId) -> arbor_engine::Result<Box<dyn Cursor + '_>> {
        View::cursor(&self.0, tree).map_err(of_engine)
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> arbor_engine::Result<RangeEstimate> {
        View::estimate(&self.0, tree, from, to).map_err(of_engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_view_holds_no_snapshot() {
        let snapshot: Arc<dyn Snapshot> = Arc::new(Released(Position(7)));
        let held = Arc::downgrade(&snapshot);
        let mut view = ReadView::new(snapshot);
        assert!(held.upgrade().is_some());
        view = view.released();
        assert!(held.upgrade().is_none());
        assert!(view.position() == Position(7) && view.get(TreeId(1), b"a").is_err());
    }
}
