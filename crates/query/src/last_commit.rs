//! The position of what a command committed last.

use std::cell::Cell;

use arbor_base::Position;

/// Log position of a command's last commit. Its statements write it, the waits of its write concern read it.
#[derive(Debug, Default)]
pub struct LastCommit(Cell<Option<Position>>);

impl LastCommit {
    /// None: nothing was committed, nor was a write found to have nothing to do.
    pub fn position(&self) -> Option<Position> {
        self.0.get()
    }

    pub fn is_at(&self, position: Position) {
        self.0.set(self.0.get().max(Some(position)));
    }
}
