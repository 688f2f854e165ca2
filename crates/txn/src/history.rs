//! Reading the log as a history: the records of all visible commits in order, with their stamps and notes.

use std::sync::Arc;
use std::time::Instant;

use arbor_base::Position;
use arbor_log::Reader;

use crate::commit::{CommitPath, log_error};
use crate::record::Record;
use crate::{Error, Result};

/// Reads forward. What it stands on may be trimmed away behind it; then it fails with [`arbor_log::Error::Trimmed`].
pub struct History {
    path: Arc<CommitPath>,
    reader: Reader,
}

impl History {
    pub(crate) fn new(path: Arc<CommitPath>, from: Position) -> History {
        let reader = path.log().read(from);
        History { path, reader }
    }

    /// Position of the next record.
    pub fn position(&self) -> Position {
        self.reader.position()
    }

    /// The next record whose commit snapshots show; `None` when there is none, now.
    pub fn read(&mut self) -> Result<Option<(Position, Record)>> {
        if self.reader.position() > self.path.published() {
            return Ok(None);
        }
        let Some(read) = self.reader.next_borrowed() else { return Ok(None) };
        let (position, payload) = read.map_err(log_error)?;
        let record = Record::decode(payload).map_err(|reason| Error::CorruptRecord { position, reason })?;
        Ok(Some((position, record)))
    }

    /// Waits until there is a next record, or until the deadline; says whether there is one.
    pub fn wait(&self, deadline: Instant) -> bool {
        self.path.wait_published(self.reader.position(), deadline)
    }
}

impl CommitPath {
    /// The first kept position whose record has a note at `time` or behind it; the next position to come when there is none.
    pub(crate) fn position_at(&self, time: u64) -> Result<Position> {
        let (mut low, mut high) = (self.log().first().0.max(1), self.published().0 + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.stamped_between(middle, high)? {
                Some((at, record)) if record.last_time() < time => low = at + 1,
                _ => high = middle,
            }
        }
        Ok(Position(low))
    }

    /// The first record with a stamp in the range.
    fn stamped_between(&self, from: u64, to: u64) -> Result<Option<(u64, Record)>> {
        let mut reader = self.log().read(Position(from));
        while reader.position().0 < to {
            let Some(read) = reader.next_borrowed() else { break };
            let (position, payload) = read.map_err(log_error)?;
            let corrupt = |reason| Error::CorruptRecord { position, reason };
            if Record::stamp_of(payload).map_err(corrupt)?.time > 0 {
                return Ok(Some((position.0, Record::decode(payload).map_err(corrupt)?)));
            }
        }
        Ok(None)
    }
}
