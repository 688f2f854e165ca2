//! Read and write transactions.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use arbor_engine::Result;
use lmdb_master_sys as ffi;

use super::cursor::Cursor;
use super::error::{check, error};
use super::{Env, FREE_DBI, MAIN_DBI, to_val};

/// The common part of read and write transactions: reading one state.
///
/// The pointer makes it neither `Send` nor `Sync`; [`ReadTxn`] says for itself what it is.
pub(crate) struct Txn {
    ptr: NonNull<ffi::MDB_txn>,
}

impl Txn {
    pub(super) fn as_ptr(&self) -> *mut ffi::MDB_txn {
        self.ptr.as_ptr()
    }

    /// Number of the committed state that is read; in a write transaction of the state that it makes.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: the transaction is live.
        unsafe { ffi::mdb_txn_id(self.as_ptr()) as u64 }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        let mut key = to_val(key);
        let mut value = to_val(&[]);
        // SAFETY: the transaction is live, both values are valid for the call.
        match unsafe { ffi::mdb_get(self.as_ptr(), MAIN_DBI, &mut key, &mut value) } {
            // SAFETY: R3.
            ffi::MDB_SUCCESS => Ok(Some(unsafe { bytes_of(value) })),
            ffi::MDB_NOTFOUND => Ok(None),
            code => Err(error(code, "get")),
        }
    }

    pub(crate) fn cursor(&self) -> Result<Cursor<'_>> {
        Cursor::open(self, MAIN_DBI)
    }

    /// Pages that the commit of one transaction freed; they are used again when no reader sees the state before it.
    pub(crate) fn pages_freed_by(&self, txn_id: u64) -> Result<u64> {
        let mut cursor = Cursor::open(self, FREE_DBI)?;
        let record = cursor.go(super::Move::Seek(&txn_id.to_ne_bytes()))?;
        Ok(record.filter(|(key, _)| *key == txn_id.to_ne_bytes()).map_or(0, |(_, list)| list_length(list)))
    }

    /// Pages that belong to no state later than this one, waiting for use.
    pub(crate) fn free_pages(&self) -> Result<u64> {
        let mut cursor = Cursor::open(self, FREE_DBI)?;
        let mut pages = 0;
        let mut entry = cursor.go(super::Move::First)?;
        while let Some((_, list)) = entry {
            pages += list_length(list);
            entry = cursor.go(super::Move::Next)?;
        }
        Ok(pages)
    }
}

/// A record of the free list is a list of page numbers that begins with its length.
fn list_length(list: &[u8]) -> u64 {
    list.first_chunk::<8>().map_or(0, |length| u64::from_ne_bytes(*length))
}

/// # Safety
/// `value` was returned by LMDB, and the lifetime the caller gives it ends with the transaction or its next change.
pub(super) unsafe fn bytes_of<'a>(value: ffi::MDB_val) -> &'a [u8] {
    if value.mv_size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(value.mv_data as *const u8, value.mv_size) }
}

/// A read transaction. It may rest (`reset`) and move to the newest state (`renew`) without taking a mutex.
pub(crate) struct ReadTxn {
    txn: Txn,
    _env: Arc<Env>,
}

// SAFETY: R1: with MDB_NOTLS a read transaction belongs to no thread.
unsafe impl Send for ReadTxn {}

// SAFETY: R5: looking at the state of a read transaction changes nothing in it; what changes it takes `&mut`.
unsafe impl Sync for ReadTxn {}

impl ReadTxn {
    pub(crate) fn begin(env: &Arc<Env>) -> Result<ReadTxn> {
        let ptr = env.begin(ffi::MDB_RDONLY)?;
        Ok(ReadTxn { txn: Txn { ptr }, _env: env.clone() })
    }

    /// Lets go of the state. Only `renew` and dropping may follow: any other call returns an error.
    pub(crate) fn reset(&mut self) {
        // SAFETY: the transaction is live or reset already; `&mut` shows that nothing borrows from it.
        unsafe { ffi::mdb_txn_reset(self.txn.as_ptr()) }
    }

    pub(crate) fn renew(&mut self) -> Result<()> {
        // SAFETY: the transaction was reset; LMDB returns EINVAL otherwise.
        check(unsafe { ffi::mdb_txn_renew(self.txn.as_ptr()) }, "renew")
    }
}

impl Deref for ReadTxn {
    type Target = Txn;

    fn deref(&self) -> &Txn {
        &self.txn
    }
}

impl Drop for ReadTxn {
    fn drop(&mut self) {
        // SAFETY: nothing borrows from the transaction; abort ends a live and a reset one alike.
        unsafe { ffi::mdb_txn_abort(self.txn.as_ptr()) }
    }
}

/// The write transaction; LMDB has one at a time. It stays on its thread and is aborted when it is dropped.
pub(crate) struct WriteTxn<'e> {
    txn: Txn,
    env: PhantomData<&'e Env>,
}

impl<'e> WriteTxn<'e> {
    pub(crate) fn begin(env: &'e Env) -> Result<WriteTxn<'e>> {
        Ok(WriteTxn { txn: Txn { ptr: env.begin(0)? }, env: PhantomData })
    }

    /// Returns the length of the value that was replaced.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<usize>> {
        let mut key = to_val(key);
        let mut data = to_val(value);
        let txn = self.txn.as_ptr();
        // SAFETY: the transaction is live; LMDB only reads through the values, and sets `data` to the bytes it has.
        match unsafe { ffi::mdb_put(txn, MAIN_DBI, &mut key, &mut data, ffi::MDB_NOOVERWRITE) } {
            ffi::MDB_SUCCESS => return Ok(None),
            ffi::MDB_KEYEXIST => {}
            code => return Err(error(code, "put")),
        }
        let replaced = data.mv_size;
        data = to_val(value);
        // SAFETY: as above.
        check(unsafe { ffi::mdb_put(txn, MAIN_DBI, &mut key, &mut data, 0) }, "put")?;
        Ok(Some(replaced))
    }

    /// Returns the length of the value that was there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<Option<usize>> {
        let Some(length) = self.get(key)?.map(<[u8]>::len) else { return Ok(None) };
        let mut key = to_val(key);
        // SAFETY: the transaction is live; a null value is right for a database without duplicates.
        check(unsafe { ffi::mdb_del(self.txn.as_ptr(), MAIN_DBI, &mut key, ptr::null_mut()) }, "delete")?;
        Ok(Some(length))
    }

    /// Deletes entries from the first key `>= from` on, while `matches` returns true.
    pub(crate) fn delete_while(
        &mut self,
        from: &[u8],
        mut matches: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let mut cursor = self.txn.cursor()?;
        let mut entry = cursor.go(super::Move::Seek(from))?;
        while let Some((key, value)) = entry {
            if !matches(key, value)? {
                break;
            }
            // The entry's bytes are not used after this; `Next` returns the entry after the deleted one.
            cursor.delete()?;
            entry = cursor.go(super::Move::Next)?;
        }
        Ok(())
    }

    pub(crate) fn commit(self) -> Result<()> {
        let ptr = self.txn.as_ptr();
        std::mem::forget(self);
        // SAFETY: the transaction is live and, with `self` consumed, nothing borrows from it. Commit frees it in all cases.
        check(unsafe { ffi::mdb_txn_commit(ptr) }, "commit")
    }
}

impl Deref for WriteTxn<'_> {
    type Target = Txn;

    fn deref(&self) -> &Txn {
        &self.txn
    }
}

impl Drop for WriteTxn<'_> {
    fn drop(&mut self) {
        // SAFETY: the transaction is live (commit forgets it).
        unsafe { ffi::mdb_txn_abort(self.txn.as_ptr()) }
    }
}
