//! A cursor of the model engine: it remembers its entry and finds the neighbour by key.

use std::ops::Bound;

use super::Rows;
use crate::{Cursor, Result};

pub(super) struct ModelCursor<'a> {
    rows: &'a Rows,
    entry: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> ModelCursor<'a> {
    pub(super) fn new(rows: &'a Rows) -> ModelCursor<'a> {
        ModelCursor { rows, entry: None }
    }

    fn go_first_of(&mut self, from: Bound<&[u8]>) -> Result<bool> {
        let found = self.rows.range::<[u8], _>((from, Bound::Unbounded)).next();
        self.entry = found.map(|(key, value)| (&**key, &**value));
        Ok(self.entry.is_some())
    }

    fn go_last_of(&mut self, to: Bound<&[u8]>) -> Result<bool> {
        let found = self.rows.range::<[u8], _>((Bound::Unbounded, to)).next_back();
        self.entry = found.map(|(key, value)| (&**key, &**value));
        Ok(self.entry.is_some())
    }

    fn entry(&self) -> (&'a [u8], &'a [u8]) {
        self.entry.expect("cursor contract: key and value only while the cursor is on an entry")
    }
}

impl Cursor for ModelCursor<'_> {
    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.go_first_of(Bound::Included(target))
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        self.go_last_of(Bound::Excluded(target))
    }

    fn first(&mut self) -> Result<bool> {
        self.go_first_of(Bound::Unbounded)
    }

    fn last(&mut self) -> Result<bool> {
        self.go_last_of(Bound::Unbounded)
    }

    fn next(&mut self) -> Result<bool> {
        match self.entry {
            Some((key, _)) => self.go_first_of(Bound::Excluded(key)),
            None => Ok(false),
        }
    }

    fn prev(&mut self) -> Result<bool> {
        match self.entry {
            Some((key, _)) => self.go_last_of(Bound::Excluded(key)),
            None => Ok(false),
        }
    }

    fn key(&self) -> &[u8] {
        self.entry().0
    }

    fn value(&self) -> &[u8] {
        self.entry().1
    }
}
