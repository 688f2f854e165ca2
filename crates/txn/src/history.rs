//! Reading the log as a history: the records of all commits that are visible and on the disk, in order, with their stamps and
//! notes. Commits that a power failure could still undo are not shown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_log::Reader;

use crate::chain::{self, Assembler, Link, Part};
use crate::commit::CommitPath;
use crate::error::log_error;
use crate::record::Record;
use crate::{Error, PositionReached, Result, Stamp};

/// Records without a time (of checkpoints) and chains that are passed over in search of a record with a time.
const EMPTY_RECORDS_MAX: u64 = 64;

/// Reads forward. Its position may be trimmed away; then it fails with [`arbor_log::Error::Trimmed`].
pub struct History {
    path: Arc<CommitPath>,
    reader: Reader,
    assembler: Assembler,
    from: Position,
    /// The history began inside a chain, and the reader went to the chain's beginning.
    went_back: bool,
}

impl History {
    pub(crate) fn new(path: Arc<CommitPath>, from: Position) -> History {
        let reader = path.log().read(from);
        History { path, reader, assembler: Assembler::default(), from, went_back: false }
    }

    /// Returns the position from which a later [`Transactions::history`](crate::Transactions::history) would continue.
    pub fn position(&self) -> Position {
        self.reader.position()
    }

    /// Epoch of the record that was read last.
    pub fn epoch(&self) -> u64 {
        self.reader.epoch()
    }

    /// The next record; `None` when there is none, now.
    pub fn read(&mut self) -> Result<Option<(Position, Record)>> {
        let frontier = self.path.frontier();
        while self.reader.position() <= frontier {
            let Some(read) = self.reader.next_borrowed() else { return Ok(None) };
            let (position, payload) = read.map_err(log_error)?;
            match self.assembler.take(payload).map_err(|reason| Error::CorruptRecord { position, reason })? {
                Part::Record(record) => return Ok(Some((position, record))),
                Part::Link => {}
                Part::Inside(links) => self.enter(position, links)?,
            }
        }
        Ok(None)
    }

    /// The history began inside a chain, at a link with this position and number: goes to the chain's beginning (C1).
    fn enter(&mut self, position: Position, links: u32) -> Result<()> {
        let (begin, first) = (Position(position.0.saturating_sub(links.into())), self.path.log().first());
        if begin < first && self.from <= first {
            // The log begins inside the chain: whole records come after it.
            return Ok(());
        }
        if self.went_back {
            return Err(Error::CorruptRecord { position, reason: "a chain without its first link" });
        }
        self.went_back = true;
        self.reader = self.path.log().read(begin);
        Ok(())
    }

    /// Waits until there is a next record, or until the deadline; returns true if there is one. A waiter has the log synced at
    /// once. Returns early when the store is closed.
    pub fn wait(&self, deadline: Instant) -> bool {
        self.position_reached().wait(deadline)
    }

    /// Returns a future that ends when there is a next record.
    pub fn position_reached(&self) -> PositionReached {
        self.path.position_reached(self.reader.position())
    }
}

impl CommitPath {
    /// Returns the position before which the log exceeds its retention in bytes and in time; `needed` is needed by other readers.
    pub(crate) fn history_floor(&self, needed: Position) -> Result<Position> {
        let Some(retention) = self.retention() else { return Ok(needed) };
        let young = self.clock().system_ms().saturating_sub(retention.time.as_millis() as i64);
        let segments = self.log().segments();
        let (mut floor, mut newer) = (needed, 0u64);
        for (at, (first, bytes)) in segments.iter().enumerate().rev() {
            let too_much = newer >= retention.bytes;
            // the segment after it began later than everything in it
            let behind = segments.get(at + 1).map(|(first, _)| first.0);
            let ended = behind.map_or(Ok(None), |behind| self.stamped_between(behind, u64::MAX))?;
            let too_old = ended.is_some_and(|(_, stamp, _)| stamp.wall < young);
            if too_much && too_old {
                break;
            }
            floor = floor.min(*first);
            newer += bytes;
        }
        Ok(floor)
    }

    /// The first kept position whose record has a note at `time` or after it; the next position to come when there is none.
    pub(crate) fn position_at(&self, time: u64) -> Result<Position> {
        let (mut low, mut high) = (self.log().first().0.max(1), self.published().0 + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.stamped_between(middle, high)? {
                Some((at, _, last_time)) if last_time < time => low = at + 1,
                _ => high = middle,
            }
        }
        Ok(Position(low))
    }

    /// Returns the last position up to `until` before which all that is visible only later was written before `delay`.
    pub(crate) fn older_than(&self, delay: Duration, until: Position) -> Result<Position> {
        let young = self.clock().system_ms().saturating_sub(delay.as_millis() as i64);
        let mut end = self.published();
        let mut reader = self.log().read(Position(end.0 + 1));
        while end < until {
            let Some(read) = reader.next_borrowed() else { break };
            let (position, payload) = read.map_err(log_error)?;
            let (stamp, _) = chain::times_of(payload).map_err(|reason| Error::CorruptRecord { position, reason })?;
            if stamp.time > 0 && stamp.wall > young {
                break;
            }
            end = position;
        }
        Ok(end)
    }

    /// Returns the stamp of the last shown record up to `until` that has one, and the time of its last note. No record is decoded. `None`: the log
    /// has none, or none among the last [`EMPTY_RECORDS_MAX`].
    pub(crate) fn times_until(&self, until: Position) -> Result<Option<(Stamp, u64)>> {
        let mut at = until.min(self.frontier());
        for _ in 0..EMPTY_RECORDS_MAX {
            let mut reader = self.log().read(at);
            let Some(read) = reader.next_borrowed() else { break };
            let (position, payload) = read.map_err(log_error)?;
            let corrupt = |reason| Error::CorruptRecord { position, reason };
            let (stamp, last_time) = chain::times_of(payload).map_err(corrupt)?;
            let back = match Link::decode(payload).map_err(corrupt)? {
                // its chain ends later, or is void
                Some(link) if !link.is_last => u64::from(link.number) + 1,
                _ if stamp.time > 0 => return Ok(Some((stamp, last_time))),
                _ => 1,
            };
            let Some(before) = at.0.checked_sub(back).filter(|before| *before > 0) else { break };
            at = Position(before);
        }
        Ok(None)
    }

    /// Position, stamp and last time of the first record or link with a stamp in the range.
    fn stamped_between(&self, from: u64, to: u64) -> Result<Option<(u64, Stamp, u64)>> {
        let mut reader = self.log().read(Position(from));
        while reader.position().0 < to {
            let Some(read) = reader.next_borrowed() else { break };
            let (position, payload) = read.map_err(log_error)?;
            let times = chain::times_of(payload).map_err(|reason| Error::CorruptRecord { position, reason })?;
            if times.0.time > 0 {
                return Ok(Some((position.0, times.0, times.1)));
            }
        }
        Ok(None)
    }
}
