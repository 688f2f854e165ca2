//! A cursor over the rows of one tree.

use arbor_engine::{Cursor, Result};

use crate::raw::Rows;

pub(crate) struct RocksCursor<'d> {
    rows: Rows<'d>,
}

impl<'d> RocksCursor<'d> {
    pub(crate) fn new(rows: Rows<'d>) -> RocksCursor<'d> {
        RocksCursor { rows }
    }
}

impl Cursor for RocksCursor<'_> {
    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.rows.seek(target)
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        match self.rows.seek_for_prev(target)? && self.rows.key() == target {
            true => self.rows.prev(),
            false => Ok(self.rows.valid()),
        }
    }

    fn first(&mut self) -> Result<bool> {
        self.rows.seek(b"")
    }

    fn last(&mut self) -> Result<bool> {
        self.rows.last()
    }

    fn next(&mut self) -> Result<bool> {
        self.rows.next()
    }

    fn prev(&mut self) -> Result<bool> {
        self.rows.prev()
    }

    fn key(&self) -> &[u8] {
        self.rows.key()
    }

    fn value(&self) -> &[u8] {
        self.rows.value()
    }
}
