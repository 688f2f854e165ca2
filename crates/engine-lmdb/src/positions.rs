//! Which log position each recent LMDB state shows.
//!
//! The position is not stored in the data file: the only states that are ever opened again are checkpoints, and
//! `checkpoint.meta` holds theirs. So a commit does not copy a leaf of records and its path for eight bytes (a third of
//! the pages of a commit of one row), and a snapshot does not look it up.
//!
//! The writer notes the position before it commits a state; a reader asks for the state that it sees. The ring holds the
//! newest [`SLOTS`] states; a reader that was held up for longer than that takes a newer state.
//!
//! LMDB keeps two states and writes each over the one before the last. A reader that is held up between taking the number
//! of the newest state and copying that state may find the state two numbers on under the old number, so it also asks
//! whether the writer has come to that one.

use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::Position;

const SLOTS: usize = 256;
/// No transaction has this number.
const NONE: u64 = u64::MAX;

pub(crate) struct Positions {
    slots: [Slot; SLOTS],
}

struct Slot {
    txn_id: AtomicU64,
    position: AtomicU64,
}

impl Positions {
    pub(crate) fn new() -> Positions {
        let empty = |_| Slot { txn_id: AtomicU64::new(NONE), position: AtomicU64::new(0) };
        Positions { slots: std::array::from_fn(empty) }
    }

    fn slot(&self, txn_id: u64) -> &Slot {
        self.slots.get(txn_id as usize % SLOTS).expect("a remainder is below its divisor")
    }

    /// Called by the writer only.
    pub(crate) fn set(&self, txn_id: u64, position: Position) {
        let slot = self.slot(txn_id);
        slot.txn_id.store(NONE, Ordering::SeqCst);
        slot.position.store(position.0, Ordering::SeqCst);
        slot.txn_id.store(txn_id, Ordering::SeqCst);
    }

    pub(crate) fn of(&self, txn_id: u64) -> Option<Position> {
        let slot = self.slot(txn_id);
        let before = slot.txn_id.load(Ordering::SeqCst);
        let position = slot.position.load(Ordering::SeqCst);
        let after = slot.txn_id.load(Ordering::SeqCst);
        (before == txn_id && after == txn_id && !self.is_written_over(txn_id)).then_some(Position(position))
    }

    /// Returns true if the writer began to commit the state that replaces this one in the file.
    fn is_written_over(&self, txn_id: u64) -> bool {
        let newest_there = self.slot(txn_id + 2).txn_id.load(Ordering::SeqCst);
        newest_there != NONE && newest_there >= txn_id + 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_states_are_known() {
        let positions = Positions::new();
        assert_eq!(positions.of(0), None);
        for txn_id in 0..1000 {
            positions.set(txn_id, Position(txn_id * 2));
            positions.set(txn_id, Position(txn_id * 3));
        }
        assert_eq!((positions.of(999), positions.of(998)), (Some(Position(2997)), Some(Position(2994))));
        assert_eq!((positions.of(743), positions.of(1000)), (None, None));
    }

    #[test]
    fn a_state_that_may_be_written_over_has_no_position() {
        let positions = Positions::new();
        positions.set(7, Position(70));
        positions.set(8, Position(80));
        assert_eq!(positions.of(7), Some(Position(70)));
        positions.set(9, Position(90));
        assert_eq!((positions.of(7), positions.of(8)), (None, Some(Position(80))));
    }
}
