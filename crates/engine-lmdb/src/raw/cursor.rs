//! A position in the database.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use arbor_engine::Result;
use lmdb_master_sys as ffi;

use super::error::{check, error};
use super::to_val;
use super::txn::{Txn, bytes_of};

/// Key and value.
pub(crate) type Entry<'t> = (&'t [u8], &'t [u8]);

/// A step of a cursor.
pub(crate) enum Move<'a> {
    First,
    Last,
    Next,
    Prev,
    /// To the first key at or after this one.
    Seek(&'a [u8]),
}

pub(crate) struct Cursor<'t> {
    ptr: NonNull<ffi::MDB_cursor>,
    txn: PhantomData<&'t Txn>,
}

// SAFETY: a cursor of a read transaction may move with it (R1); one of a write transaction is only made and used inside
// functions of this crate that do not pass it to another thread.
unsafe impl Send for Cursor<'_> {}

impl<'t> Cursor<'t> {
    pub(super) fn open(txn: &'t Txn, dbi: ffi::MDB_dbi) -> Result<Cursor<'t>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the transaction is live, `raw` receives the handle.
        let code = unsafe { ffi::mdb_cursor_open(txn.as_ptr(), dbi, &mut raw) };
        let ptr = NonNull::new(raw).filter(|_| code == 0).ok_or_else(|| error(code, "cursor"))?;
        Ok(Cursor { ptr, txn: PhantomData })
    }

    /// `None`: there is no such entry, and the position is lost unless the step was `Next` or `Prev`.
    pub(crate) fn go(&mut self, step: Move<'_>) -> Result<Option<Entry<'t>>> {
        let (op, target) = match step {
            Move::First => (ffi::MDB_FIRST, None),
            Move::Last => (ffi::MDB_LAST, None),
            Move::Next => (ffi::MDB_NEXT, None),
            Move::Prev => (ffi::MDB_PREV, None),
            Move::Seek(target) => (ffi::MDB_SET_RANGE, Some(target)),
        };
        let mut key = to_val(target.unwrap_or_default());
        let mut value = to_val(&[]);
        // SAFETY: the cursor is open (R4), both values are valid for the call.
        match unsafe { ffi::mdb_cursor_get(self.ptr.as_ptr(), &mut key, &mut value, op) } {
            // SAFETY: R3: the bytes live as long as the borrow of the transaction.
            ffi::MDB_SUCCESS => Ok(Some(unsafe { (bytes_of(key), bytes_of(value)) })),
            ffi::MDB_NOTFOUND => Ok(None),
            code => Err(error(code, "cursor move")),
        }
    }

    /// Deletes the current entry; only inside a write transaction.
    pub(super) fn delete(&mut self) -> Result<()> {
        // SAFETY: the cursor is open; LMDB returns EACCES in a read transaction.
        check(unsafe { ffi::mdb_cursor_del(self.ptr.as_ptr(), 0) }, "cursor delete")
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: R4: the transaction is still live.
        unsafe { ffi::mdb_cursor_close(self.ptr.as_ptr()) }
    }
}
