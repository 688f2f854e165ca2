//! Position of a leaf between two rows, and between two batches.

use super::run::EntryCursor;
use super::{Run, Slot};
use crate::Result;
use crate::plan::{Direction, IndexSource};

#[derive(Debug)]
pub(super) enum Place {
    Start,
    /// The run's cursor is on the last row.
    On,
    /// No cursor; the last row had this key.
    Behind(Vec<u8>),
    Ended,
}

/// A leaf's cursor with its place.
#[derive(Debug)]
pub(super) struct Walk {
    slot: Slot,
    source: IndexSource,
    direction: Direction,
    place: Place,
    /// Rows that are likely read, if it is known.
    expected: Option<u64>,
}

impl Walk {
    pub(super) fn new(slot: Slot, source: IndexSource, direction: Direction) -> Walk {
        Walk { slot, source, direction, place: Place::Start, expected: None }
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// Notes how many rows are likely read.
    pub(super) fn expect_rows(&mut self, rows: Option<u64>) {
        self.expected = rows;
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.place, Place::Ended)
    }

    /// To the next entry in scan direction. The first one is at or after `low`, or backward, before `high`.
    pub(super) fn step(&mut self, run: &mut Run<'_>, low: &[u8], high: Option<&[u8]>) -> Result<bool> {
        let backward = self.direction.is_backward();
        let found = match std::mem::replace(&mut self.place, Place::Ended) {
            Place::Ended => return Ok(false),
            Place::Start => {
                let cursor = run.open(self.slot, self.source)?;
                if let Some(rows) = self.expected {
                    cursor.expect_rows(rows, if backward { low } else { high.unwrap_or_default() });
                }
                match (backward, high) {
                    (false, _) => cursor.seek(low)?,
                    (true, Some(high)) => cursor.seek_before(high)?,
                    (true, None) => cursor.last()?,
                }
            }
            Place::Behind(key) => {
                let cursor = run.open(self.slot, self.source)?;
                match backward {
                    true => cursor.seek_before(&key)?,
                    false => cursor.seek(&key)? && (cursor.position() != key || cursor.next()?),
                }
            }
            Place::On => match run.cursor(self.slot) {
                Some(cursor) if backward => cursor.prev()?,
                Some(cursor) => cursor.next()?,
                None => false,
            },
        };
        Ok(self.set_found(found))
    }

    /// Skips ahead: forward to the first entry at or after `target`, backward to the last one before it.
    pub(super) fn seek(&mut self, run: &mut Run<'_>, target: &[u8]) -> Result<bool> {
        let backward = self.direction.is_backward();
        let found = match run.cursor(self.slot) {
            Some(cursor) if backward => cursor.seek_before(target)?,
            Some(cursor) => cursor.seek(target)?,
            None => false,
        };
        Ok(self.set_found(found))
    }

    /// Opens the cursor on the last row again if the run that read it has ended.
    pub(super) fn reposition(&mut self, run: &mut Run<'_>) -> Result<()> {
        let Place::Behind(key) = &self.place else { return Ok(()) };
        let found = run.open(self.slot, self.source)?.seek(key)?;
        self.set_found(found);
        Ok(())
    }

    /// Returns the cursor on the current entry. None: it is on no entry.
    pub(super) fn entry<'r, 'v>(&self, run: &'r mut Run<'v>) -> Option<&'r mut EntryCursor<'v>> {
        match self.place {
            Place::On => run.cursor(self.slot),
            _ => None,
        }
    }

    pub(super) fn end(&mut self) {
        self.place = Place::Ended;
    }

    pub(super) fn suspend(&mut self, run: &mut Run<'_>) {
        if let Some(cursor) = self.entry(run) {
            self.place = Place::Behind(cursor.position().to_vec());
        }
    }

    fn set_found(&mut self, found: bool) -> bool {
        self.place = if found { Place::On } else { Place::Ended };
        found
    }
}
