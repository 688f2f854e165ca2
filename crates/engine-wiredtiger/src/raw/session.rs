//! A session: transactions, rows of tables, and what WiredTiger does outside of transactions.

use std::collections::HashMap;
use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use arbor_engine::Result;

use super::connection::text;
use super::cursor::{RowCursor, bytes, item, stored};
use super::fault::{Called, checked, found};
use super::{Connection, call, ffi};

/// Cursors that a session keeps open for its reads and writes.
const CURSORS_MAX: usize = 256;

/// A table of WiredTiger by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Table(pub u64);

impl Table {
    pub(crate) fn uri(self) -> String {
        format!("table:t{}", self.0)
    }

    pub(crate) fn file(self) -> String {
        format!("t{}.wt", self.0)
    }

    fn c_uri(self) -> CString {
        text(&self.uri()).unwrap_or_default()
    }
}

/// Closing it rolls back its transaction.
pub(crate) struct Session {
    session: *mut ffi::WT_SESSION,
    cursors: HashMap<Table, *mut ffi::WT_CURSOR>,
    in_transaction: bool,
    connection: Arc<Connection>,
}

// SAFETY: R3.
unsafe impl Send for Session {}

impl Session {
    pub(super) fn new(session: *mut ffi::WT_SESSION, connection: Arc<Connection>) -> Session {
        Session { session, cursors: HashMap::new(), in_transaction: false, connection }
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub(super) fn check(&self, what: &'static str, code: i32) -> Called {
        checked(self.connection.dir(), what, code)
    }

    pub(super) fn found(&self, what: &'static str, code: i32) -> Called<bool> {
        found(self.connection.dir(), what, code)
    }

    // ---- transactions -----------------------------------------------------------------------------------------------

    pub(crate) fn begin(&mut self) -> Called {
        // SAFETY: R1.
        self.check("begin", unsafe { call!(self.session, begin_transaction, ptr::null()) })?;
        self.in_transaction = true;
        Ok(())
    }

    /// After an error the transaction is rolled back.
    pub(crate) fn commit(&mut self, generation: u64) -> Called {
        let config = text(&format!("commit_timestamp={generation:x}")).unwrap_or_default();
        self.in_transaction = false;
        // SAFETY: R1, R2.
        self.check("commit", unsafe { call!(self.session, commit_transaction, config.as_ptr()) })
    }

    /// Ends the transaction, if there is one.
    pub(crate) fn rollback(&mut self) {
        if std::mem::take(&mut self.in_transaction) {
            // SAFETY: R1. Rolling back does not fail but for a panic, which the next call reports.
            let _ = unsafe { call!(self.session, rollback_transaction, ptr::null()) };
        }
    }

    // ---- rows -------------------------------------------------------------------------------------------------------

    fn open_cursor(&mut self, uri: &CString, config: Option<&CString>) -> Called<*mut ffi::WT_CURSOR> {
        let mut cursor = ptr::null_mut();
        let config = config.map_or(ptr::null(), |config| config.as_ptr());
        // SAFETY: R1, R2.
        let code = unsafe { call!(self.session, open_cursor, uri.as_ptr(), ptr::null_mut(), config, &mut cursor) };
        self.check("open a cursor", code)?;
        Ok(cursor)
    }

    /// The session's own cursor of a table.
    fn cursor(&mut self, table: Table) -> Called<*mut ffi::WT_CURSOR> {
        if let Some(cursor) = self.cursors.get(&table) {
            return Ok(*cursor);
        }
        if self.cursors.len() >= CURSORS_MAX {
            self.close_cursors();
        }
        let cursor = self.open_cursor(&table.c_uri(), None)?;
        self.cursors.insert(table, cursor);
        Ok(cursor)
    }

    /// Runs `take` on the value of a row, if there is one.
    pub(crate) fn read<T>(&mut self, table: Table, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Called<Option<T>> {
        let (cursor, key) = (self.cursor(table)?, stored(key));
        // SAFETY: R1, R2, R5; the value is used up before the cursor is reset.
        unsafe {
            let mut key = item(&key);
            call!(cursor, set_key, &raw mut key);
            if !self.found("search", call!(cursor, search))? {
                return Ok(None);
            }
            let mut value = item(b"");
            self.check("read", call!(cursor, get_value, &raw mut value))?;
            let taken = take(bytes(&value));
            self.check("reset", call!(cursor, reset))?;
            Ok(Some(taken))
        }
    }

    pub(crate) fn get(&mut self, table: Table, key: &[u8]) -> Called<Option<Vec<u8>>> {
        self.read(table, key, <[u8]>::to_vec)
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Called {
        let (cursor, key) = (self.cursor(table)?, stored(key));
        // SAFETY: R1, R2.
        unsafe {
            let (mut key, mut value) = (item(&key), item(value));
            call!(cursor, set_key, &raw mut key);
            call!(cursor, set_value, &raw mut value);
            self.check("write", call!(cursor, insert))
        }
    }

    /// Puts a row and returns the length of the value that was there.
    pub(crate) fn replace(&mut self, table: Table, key: &[u8], value: &[u8]) -> Called<Option<usize>> {
        let (cursor, key) = (self.cursor(table)?, stored(key));
        // SAFETY: R1, R2. A found row keeps the cursor in place, so its update searches no second time.
        unsafe {
            let (mut key, mut value, mut old) = (item(&key), item(value), item(b""));
            call!(cursor, set_key, &raw mut key);
            if self.found("search", call!(cursor, search))? {
                self.check("read", call!(cursor, get_value, &raw mut old))?;
                call!(cursor, set_value, &raw mut value);
                self.check("write", call!(cursor, update))?;
                self.check("reset", call!(cursor, reset))?;
                return Ok(Some(old.size));
            }
            call!(cursor, set_key, &raw mut key);
            call!(cursor, set_value, &raw mut value);
            self.check("write", call!(cursor, insert))?;
            Ok(None)
        }
    }

    /// A missing key is not an error.
    pub(crate) fn remove(&mut self, table: Table, key: &[u8]) -> Called {
        let (cursor, key) = (self.cursor(table)?, stored(key));
        // SAFETY: R1, R2.
        unsafe {
            let mut key = item(&key);
            call!(cursor, set_key, &raw mut key);
            self.found("delete", call!(cursor, remove)).map(drop)
        }
    }

    /// Deletes from the row of one cursor to the row of the other, both included.
    /// Requires: both are on rows of one table, in order.
    pub(crate) fn truncate(&mut self, from: &RowCursor, to: &RowCursor) -> Called {
        // SAFETY: R1, R3.
        let code = unsafe { call!(self.session, truncate, ptr::null(), from.pointer(), to.pointer(), ptr::null()) };
        self.check("truncate", code)
    }

    /// A new cursor; the caller closes it with this session.
    pub(crate) fn rows(&mut self, table: Table) -> Called<RowCursor> {
        Ok(RowCursor::new(self.open_cursor(&table.c_uri(), None)?))
    }

    /// A cursor that fills a table that was just made, in order and outside of transactions.
    pub(crate) fn bulk(&mut self, table: Table) -> Called<RowCursor> {
        Ok(RowCursor::new(self.open_cursor(&table.c_uri(), Some(&c"bulk".to_owned()))?))
    }

    /// A cursor whose `next` goes to a row of the next of `pieces` about equal pieces.
    pub(crate) fn samples(&mut self, table: Table, pieces: usize) -> Called<RowCursor> {
        let config = format!("next_random=true,next_random_sample_size={pieces}");
        let config = text(&config).unwrap_or_default();
        Ok(RowCursor::new(self.open_cursor(&table.c_uri(), Some(&config))?))
    }

    /// Closes the cursors that the session keeps, which prevent dropping their tables.
    pub(crate) fn close_cursors(&mut self) {
        for (_, cursor) in self.cursors.drain() {
            // SAFETY: R1, R3.
            let _ = unsafe { call!(cursor, close) };
        }
    }

    pub(crate) fn close_cursor(&mut self, table: Table) {
        if let Some(cursor) = self.cursors.remove(&table) {
            // SAFETY: R1, R3.
            let _ = unsafe { call!(cursor, close) };
        }
    }

    // ---- outside of transactions ------------------------------------------------------------------------------------

    pub(crate) fn create(&mut self, table: Table, config: &str) -> Result<()> {
        let config = text(config)?;
        // SAFETY: R1, R2.
        let code = unsafe { call!(self.session, create, table.c_uri().as_ptr(), config.as_ptr()) };
        Ok(self.check("create a table", code)?)
    }

    /// As [`Session::create`]; a configuration that WiredTiger refuses is an error with its reason.
    pub(crate) fn try_create(&mut self, table: Table, config: &str) -> Result<std::result::Result<(), String>> {
        let config = text(config)?;
        // SAFETY: R1, R2.
        let code = unsafe { call!(self.session, create, table.c_uri().as_ptr(), config.as_ptr()) };
        match self.check("create a table", code) {
            Ok(()) => Ok(Ok(())),
            Err(fault) if fault.is_invalid() => Ok(Err(fault.text())),
            Err(fault) => Err(fault.into()),
        }
    }

    pub(crate) fn drop_table(&mut self, table: Table) -> Called {
        self.close_cursor(table);
        // SAFETY: R1, R2.
        let code = unsafe { call!(self.session, drop, table.c_uri().as_ptr(), c"force=true".as_ptr()) };
        self.check("drop a table", code)
    }

    pub(crate) fn checkpoint(&mut self) -> Called {
        // SAFETY: R1.
        self.check("checkpoint", unsafe { call!(self.session, checkpoint, ptr::null()) })
    }

    pub(crate) fn compact(&mut self, table: Table, seconds: u64) -> Called {
        let config = text(&format!("timeout={seconds}")).unwrap_or_default();
        // SAFETY: R1, R2.
        let code = unsafe { call!(self.session, compact, table.c_uri().as_ptr(), config.as_ptr()) };
        self.check("compact", code)
    }

    /// The tables that WiredTiger knows, ours only.
    pub(crate) fn tables(&mut self) -> Result<Vec<Table>> {
        let metadata = self.open_cursor(&c"metadata:".to_owned(), None)?;
        let uris = RowCursor::new(metadata).texts(self)?;
        let number = |uri: &String| uri.strip_prefix("table:t").and_then(|number| number.parse().ok());
        Ok(uris.iter().filter_map(number).map(Table).collect())
    }

    /// Returns the statistics of the database, or of a table: description and value.
    pub(crate) fn statistics(&mut self, table: Option<Table>) -> Result<Vec<(&'static str, u64)>> {
        let uri = table.map_or("statistics:".to_owned(), |table| format!("statistics:{}", table.uri()));
        let uri = text(&uri)?;
        let cursor = self.open_cursor(&uri, Some(&c"statistics=(fast)".to_owned()))?;
        Ok(RowCursor::new(cursor).statistics(self)?)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: R1, R4. Its cursors go with it.
        let _ = unsafe { call!(self.session, close, ptr::null()) };
    }
}
