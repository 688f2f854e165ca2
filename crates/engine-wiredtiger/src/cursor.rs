//! A cursor of a snapshot.
//!
//! A cursor of WiredTiger keeps the page of its row in the cache, and the page of a large row is as large: a few of them fill a small
//! cache, and a statement that is at a large row may wait long, for memory or for others. So a large row is copied, once there is memory
//! for it, and its page is left; the next move searches the row again.

use arbor_base::memory::values;
use arbor_engine::{Cursor, Result};

use crate::raw::{Called, RowCursor, Session};
use crate::room;
use crate::snapshot::WiredTigerSnapshot;

pub(crate) struct WiredTigerCursor<'s> {
    snapshot: &'s WiredTigerSnapshot,
    /// `None` only while it is dropped.
    rows: Option<RowCursor>,
    /// The large row that the cursor is on; `rows` are on no row then.
    copy: Option<LargeRow>,
    /// Key of the row that a move begins at.
    start: Vec<u8>,
}

struct LargeRow {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'s> WiredTigerCursor<'s> {
    pub(crate) fn new(snapshot: &'s WiredTigerSnapshot, rows: RowCursor) -> WiredTigerCursor<'s> {
        WiredTigerCursor { snapshot, rows: Some(rows), copy: None, start: Vec::new() }
    }

    fn rows(&self) -> &RowCursor {
        self.rows.as_ref().expect("I4: a cursor has its rows until it is dropped")
    }

    fn call<T>(&mut self, go: impl FnOnce(&mut RowCursor, &mut Session) -> Called<T>) -> Result<T> {
        let rows = self.rows.as_mut().expect("I4: a cursor has its rows until it is dropped");
        Ok(go(rows, self.snapshot.lock().session())?)
    }

    /// Moves by a function that does the same from any position.
    fn place(&mut self, mut go: impl FnMut(&mut RowCursor, &mut Session) -> Called<bool>) -> Result<bool> {
        self.copy = None;
        let found = room::patiently(|| self.call(&mut go))?;
        self.arrive(found)
    }

    #[inline]
    fn arrive(&mut self, found: bool) -> Result<bool> {
        if found && self.rows().value().len() >= values::LARGE_BYTES_MIN {
            self.take_copy()?;
        }
        Ok(found)
    }

    /// Copies the row and leaves its page.
    fn take_copy(&mut self) -> Result<()> {
        let (key, bytes) = (self.rows().key().to_vec(), self.rows().value().len());
        if values::must_wait(bytes) {
            self.call(RowCursor::reset)?;
            values::before_value(bytes);
            let found = room::patiently(|| self.call(|rows, session| rows.seek(session, &key)))?;
            assert!(found && self.rows().key() == key, "a snapshot stays as it is");
        }
        let value = self.rows().value().to_vec();
        assert_eq!(value.len(), bytes, "a snapshot stays as it is");
        self.copy = Some(LargeRow { key, value });
        self.call(RowCursor::reset)
    }

    /// Moves to the row after or before the present one, if there is one.
    fn step(&mut self, forward: bool) -> Result<bool> {
        let rows = self.rows.as_mut().expect("I4: a cursor has its rows until it is dropped");
        if rows.is_on() {
            self.start.clear();
            self.start.extend_from_slice(rows.key());
            let mut locked = self.snapshot.lock();
            let moved = if forward { rows.next(locked.session()) } else { rows.prev(locked.session()) };
            drop(locked);
            match moved {
                Ok(found) => return self.arrive(found),
                Err(fault) if fault.is_rollback() => {}
                Err(fault) => return Err(fault.into()),
            }
        } else {
            let Some(row) = self.copy.take() else { return Ok(false) };
            self.start = row.key;
        }
        self.step_from_start(forward)
    }

    /// Moves to the row after or before `start`.
    fn step_from_start(&mut self, forward: bool) -> Result<bool> {
        let mut start = std::mem::take(&mut self.start);
        if forward {
            // the smallest key after it
            start.push(0);
            self.place(|rows, session| rows.seek(session, &start))
        } else {
            self.place(|rows, session| rows.seek_before(session, &start))
        }
    }
}

impl Cursor for WiredTigerCursor<'_> {
    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.place(|rows, session| rows.seek(session, target))
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        self.place(|rows, session| rows.seek_before(session, target))
    }

    fn first(&mut self) -> Result<bool> {
        self.place(RowCursor::first)
    }

    fn last(&mut self) -> Result<bool> {
        self.place(RowCursor::last)
    }

    fn next(&mut self) -> Result<bool> {
        self.step(true)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(false)
    }

    fn key(&self) -> &[u8] {
        match &self.copy {
            Some(row) => &row.key,
            None => self.rows().key(),
        }
    }

    fn value(&self) -> &[u8] {
        match &self.copy {
            Some(row) => &row.value,
            None => self.rows().value(),
        }
    }
}

impl Drop for WiredTigerCursor<'_> {
    fn drop(&mut self) {
        if let Some(rows) = self.rows.take() {
            // What fails here fails again at the session's next call.
            let _ = rows.close(self.snapshot.lock().session());
        }
    }
}
