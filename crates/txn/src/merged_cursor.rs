//! A cursor over a snapshot's tree with a transaction's own writes laid over it.
//!
//! I1: while moving forward, `base` is at the smallest entry of the snapshot that is not before the cursor and
//! `own` is the smallest own write that is not before it; while moving backward, the mirror image. `settle` then chooses
//! the nearer of both and steps over what own writes hide. A turn of direction seeks both sides again from the current key.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Bound;

use arbor_engine::{Cursor, Result};

use crate::scratch::Value;
use crate::written::{Entry, TreeWrites, Written};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntrySource {
    None,
    Base,
    Own,
}

pub(crate) struct MergedCursor<'a> {
    base: Box<dyn Cursor + 'a>,
    base_valid: bool,
    writes: &'a TreeWrites,
    own: Option<(&'a [u8], &'a Entry)>,
    written: &'a Written,
    /// The value of `own` while the cursor is at it, when it had to be read or made.
    loaded: Vec<u8>,
    direction: Direction,
    source: EntrySource,
}

impl<'a> MergedCursor<'a> {
    pub(crate) fn new(base: Box<dyn Cursor + 'a>, writes: &'a TreeWrites, written: &'a Written) -> MergedCursor<'a> {
        MergedCursor {
            base,
            base_valid: false,
            writes,
            own: None,
            written,
            loaded: Vec::new(),
            direction: Direction::Forward,
            source: EntrySource::None,
        }
    }

    /// Reads or makes the value of the own entry, whose key the base has only if it is at it. Returns false if the entry leaves
    /// no row.
    fn load(&mut self) -> Result<bool> {
        let row = match self.own {
            None | Some((_, Entry { value: None, .. })) => return Ok(false),
            Some((_, Entry { value: Some(Value::Memory(_)), is_update: false, .. })) => return Ok(true),
            Some((key, entry)) => {
                let is_there = self.base_valid && self.base.key() == key;
                let before = is_there.then(|| Cow::Owned(self.base.value().to_vec()));
                let row = self.written.row(key, entry, || Ok(before));
                row.map_err(|error| arbor_engine::Error::Other(error.to_string()))?
            }
        };
        self.loaded = row.as_deref().unwrap_or_default().to_vec();
        Ok(row.is_some())
    }

    fn own_from(&self, from: Bound<&[u8]>) -> Option<(&'a [u8], &'a Entry)> {
        let mut range = self.writes.entries.range::<[u8], _>((from, Bound::Unbounded));
        range.next().map(|(key, entry)| (key.as_slice(), entry))
    }

    fn own_before(&self, to: Bound<&[u8]>) -> Option<(&'a [u8], &'a Entry)> {
        let mut range = self.writes.entries.range::<[u8], _>((Bound::Unbounded, to));
        range.next_back().map(|(key, entry)| (key.as_slice(), entry))
    }

    fn step_base(&mut self) -> Result<()> {
        self.base_valid = match self.direction {
            Direction::Forward => self.base.next()?,
            Direction::Backward => self.base.prev()?,
        };
        Ok(())
    }

    fn step_own(&mut self) {
        if let Some((key, _)) = self.own {
            self.own = match self.direction {
                Direction::Forward => self.own_from(Bound::Excluded(key)),
                Direction::Backward => self.own_before(Bound::Excluded(key)),
            };
        }
    }

    /// Moves the base out of a deleted range that hides it. Returns true if it moved.
    fn leave_deleted_range(&mut self) -> Result<bool> {
        if !self.base_valid || self.writes.ranges.is_empty() {
            return Ok(false);
        }
        let Some(range) = self.writes.range_over(self.base.key()) else { return Ok(false) };
        self.base_valid = match (self.direction, &range.to) {
            (Direction::Forward, Some(to)) => self.base.seek(to)?,
            (Direction::Forward, None) => false,
            (Direction::Backward, _) => self.base.seek_before(&range.from)?,
        };
        Ok(true)
    }

    /// Distance order of base and own in the direction of movement.
    fn nearer(&self) -> Option<Ordering> {
        match (self.base_valid, self.own) {
            (false, None) => None,
            (true, None) => Some(Ordering::Less),
            (false, Some(_)) => Some(Ordering::Greater),
            (true, Some((own, _))) => {
                let order = self.base.key().cmp(own);
                Some(if self.direction == Direction::Forward { order } else { order.reverse() })
            }
        }
    }

    fn settle(&mut self) -> Result<bool> {
        loop {
            if self.leave_deleted_range()? {
                continue;
            }
            match self.nearer() {
                None => {
                    self.source = EntrySource::None;
                    return Ok(false);
                }
                Some(Ordering::Less) => {
                    self.source = EntrySource::Base;
                    return Ok(true);
                }
                Some(order) => {
                    let has_row = self.load()?;
                    if order == Ordering::Equal {
                        self.step_base()?;
                    }
                    if has_row {
                        self.source = EntrySource::Own;
                        return Ok(true);
                    }
                    self.step_own();
                }
            }
        }
    }

    fn advance(&mut self, direction: Direction) -> Result<bool> {
        if self.source == EntrySource::None {
            return Ok(false);
        }
        if self.direction == direction {
            match self.source {
                EntrySource::Base => self.step_base()?,
                _ => self.step_own(),
            }
            return self.settle();
        }
        let key = self.key().to_vec();
        self.direction = direction;
        match direction {
            Direction::Forward => {
                self.base_valid = self.base.seek(&key)?;
                if self.base_valid && self.base.key() == key {
                    self.step_base()?;
                }
                self.own = self.own_from(Bound::Excluded(&key));
            }
            Direction::Backward => {
                self.base_valid = self.base.seek_before(&key)?;
                self.own = self.own_before(Bound::Excluded(&key));
            }
        }
        self.settle()
    }
}

impl Cursor for MergedCursor<'_> {
    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.direction = Direction::Forward;
        self.base_valid = self.base.seek(target)?;
        self.own = self.own_from(Bound::Included(target));
        self.settle()
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        self.direction = Direction::Backward;
        self.base_valid = self.base.seek_before(target)?;
        self.own = self.own_before(Bound::Excluded(target));
        self.settle()
    }

    fn first(&mut self) -> Result<bool> {
        self.direction = Direction::Forward;
        self.base_valid = self.base.first()?;
        self.own = self.own_from(Bound::Unbounded);
        self.settle()
    }

    fn last(&mut self) -> Result<bool> {
        self.direction = Direction::Backward;
        self.base_valid = self.base.last()?;
        self.own = self.own_before(Bound::Unbounded);
        self.settle()
    }

    fn next(&mut self) -> Result<bool> {
        self.advance(Direction::Forward)
    }

    fn prev(&mut self) -> Result<bool> {
        self.advance(Direction::Backward)
    }

    fn key(&self) -> &[u8] {
        match (self.source, self.own) {
            (EntrySource::Base, _) => self.base.key(),
            (EntrySource::Own, Some((key, _))) => key,
            _ => &[],
        }
    }

    fn value(&self) -> &[u8] {
        match (self.source, self.own) {
            (EntrySource::Base, _) => self.base.value(),
            (EntrySource::Own, Some((_, Entry { value: Some(Value::Memory(value)), is_update: false, .. }))) => value,
            (EntrySource::Own, Some((_, Entry { value: Some(_), .. }))) => &self.loaded,
            _ => &[],
        }
    }

    fn expect_rows(&mut self, rows: u64, end: &[u8]) {
        self.base.expect_rows(rows, end);
    }
}

/// The tree that the transaction created itself has nothing below its own writes.
pub(crate) struct EmptyCursor;

impl Cursor for EmptyCursor {
    fn seek(&mut self, _target: &[u8]) -> Result<bool> {
        Ok(false)
    }
    fn seek_before(&mut self, _target: &[u8]) -> Result<bool> {
        Ok(false)
    }
    fn first(&mut self) -> Result<bool> {
        Ok(false)
    }
    fn last(&mut self) -> Result<bool> {
        Ok(false)
    }
    fn next(&mut self) -> Result<bool> {
        Ok(false)
    }
    fn prev(&mut self) -> Result<bool> {
        Ok(false)
    }
    fn key(&self) -> &[u8] {
        &[]
    }
    fn value(&self) -> &[u8] {
        &[]
    }
}
