//! A cursor of a snapshot.

use arbor_engine::{Cursor, Result};

use crate::raw::RowCursor;
use crate::snapshot::WiredTigerSnapshot;

pub(crate) struct WiredTigerCursor<'s> {
    snapshot: &'s WiredTigerSnapshot,
    /// `None` only while it is dropped.
    rows: Option<RowCursor>,
}

impl<'s> WiredTigerCursor<'s> {
    pub(crate) fn new(snapshot: &'s WiredTigerSnapshot, rows: RowCursor) -> WiredTigerCursor<'s> {
        WiredTigerCursor { snapshot, rows: Some(rows) }
    }

    fn rows(&self) -> &RowCursor {
        self.rows.as_ref().expect("I4: a cursor has its rows until it is dropped")
    }
}

/// Moves the rows with the snapshot's session.
macro_rules! go {
    ($cursor:expr, $move:ident $(, $target:expr)?) => {{
        let rows = $cursor.rows.as_mut().expect("I4: a cursor has its rows until it is dropped");
        Ok(rows.$move($cursor.snapshot.lock().session() $(, $target)?)?)
    }};
}

impl Cursor for WiredTigerCursor<'_> {
    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        go!(self, seek, target)
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        go!(self, seek_before, target)
    }

    fn first(&mut self) -> Result<bool> {
        go!(self, first)
    }

    fn last(&mut self) -> Result<bool> {
        go!(self, last)
    }

    fn next(&mut self) -> Result<bool> {
        go!(self, next)
    }

    fn prev(&mut self) -> Result<bool> {
        go!(self, prev)
    }

    fn key(&self) -> &[u8] {
        self.rows().key()
    }

    fn value(&self) -> &[u8] {
        self.rows().value()
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
