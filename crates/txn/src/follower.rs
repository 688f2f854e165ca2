//! Following the log from a snapshot on: every committed change after it, in order.
//!
//! While a follower lives, the log keeps what it has not read yet, whatever checkpoints do.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbor_base::Position;
use arbor_engine::Op;
use arbor_log::Reader;
use parking_lot::Mutex;

use crate::chain::{Assembler, Part};
use crate::commit::CommitPath;
use crate::error::log_error;
use crate::{Error, Result};

/// First position that is needed, by follower.
#[derive(Debug, Default)]
pub(crate) struct LogHolds {
    positions: Mutex<(u64, BTreeMap<u64, Position>)>,
}

impl LogHolds {
    /// Returns the first position that is needed; beyond all positions without followers.
    pub(crate) fn oldest(&self) -> Position {
        self.positions.lock().1.values().min().copied().unwrap_or(Position(u64::MAX))
    }

    fn add(&self) -> u64 {
        let mut positions = self.positions.lock();
        let id = positions.0;
        positions.0 += 1;
        positions.1.insert(id, Position::ZERO);
        id
    }
}

/// Requires that what it read is no longer needed from the log: it only moves forward.
pub struct Follower {
    holds: Arc<LogHolds>,
    id: u64,
    path: Arc<CommitPath>,
    reader: Reader,
    assembler: Assembler,
}

impl Follower {
    /// Holds everything that the log has; [`Follower::begin_after`] reduces it to what is needed.
    ///
    /// A trim that was decided before this call spares what comes after a snapshot that is taken after it: an engine is
    /// never durable further than it has applied.
    pub(crate) fn new(holds: Arc<LogHolds>, path: Arc<CommitPath>) -> Follower {
        let id = holds.add();
        let reader = path.log().read(path.log().appended().next());
        Follower { holds, id, path, reader, assembler: Assembler::default() }
    }

    pub(crate) fn begin_after(&mut self, position: Position) {
        self.reader = self.path.log().read(position.next());
        self.holds.positions.lock().1.insert(self.id, position.next());
    }

    /// The last position that was read.
    pub fn position(&self) -> Position {
        Position(self.reader.position().0 - 1)
    }

    /// The last position of the log that is certain to become visible. Some of the newest records may not be so yet.
    pub fn end(&self) -> Position {
        self.path.logged()
    }

    /// The changes of the next record up to `end`; `None` when there is none, now.
    ///
    /// Requires an `end` that ends a record: of a snapshot, or of [`Follower::end`].
    pub fn next(&mut self, end: Position) -> Result<Option<(Position, Vec<Op>)>> {
        while self.reader.position() <= end {
            let Some(read) = self.reader.next_borrowed() else { return Ok(None) };
            let (position, payload) = read.map_err(log_error)?;
            let corrupt = |reason| Error::CorruptRecord { position, reason };
            match self.assembler.take(payload).map_err(corrupt)? {
                Part::Record(record) => return Ok(Some((position, record.ops))),
                Part::Link => {}
                Part::Inside(_) => return Err(corrupt("its chain begins before the snapshot")),
            }
        }
        Ok(None)
    }

    /// Releases what was read so far.
    pub fn release(&self) {
        let released = self.reader.position();
        let before = self.holds.positions.lock().1.insert(self.id, released);
        assert!(before.is_some_and(|before| before <= released), "from {before:?} back to {released}");
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let held = self.holds.positions.lock().1.remove(&self.id);
        debug_assert!(held.is_some(), "the log is held for each follower");
    }
}
