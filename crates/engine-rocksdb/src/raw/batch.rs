//! Changes that RocksDB makes together.

use std::ffi::c_char;

use super::{ROW, ffi};
use crate::records::Content;

pub(crate) struct WriteBatch {
    pub(super) batch: *mut ffi::rocksdb_writebatch_t,
    /// Bytes of keys and values, and what a memtable adds to each row.
    pub bytes: u64,
    /// Bytes of the largest value.
    pub largest: u64,
}

/// A skip list node and the row's header, about.
const ROW_OVERHEAD_BYTES: u64 = 64;

pub(super) fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

impl WriteBatch {
    pub(crate) fn new() -> WriteBatch {
        // SAFETY: R1.
        let batch = unsafe { ffi::rocksdb_writebatch_create() };
        WriteBatch { batch, bytes: 0, largest: 0 }
    }

    pub(crate) fn put(&mut self, content: Content, key: &[u8], value: &[u8]) {
        self.bytes += (key.len() + value.len()) as u64 + ROW_OVERHEAD_BYTES;
        self.largest = self.largest.max(value.len() as u64);
        let (prefix, end) = (content.prefix(), [ROW]);
        let (keys, lengths) = ([chars(&prefix), chars(key)], [prefix.len(), key.len()]);
        let (values, value_lengths) = ([chars(value), chars(&end)], [value.len(), end.len()]);
        // SAFETY: R1, R2; two parts of the key and two of the value.
        unsafe {
            let (keys, lengths) = (keys.as_ptr(), lengths.as_ptr());
            ffi::rocksdb_writebatch_putv(self.batch, 2, keys, lengths, 2, values.as_ptr(), value_lengths.as_ptr());
        }
    }

    /// An update message. Requires: the database was opened with a function for them.
    pub(crate) fn update(&mut self, content: Content, key: &[u8], update: &[u8]) {
        let row = content.row(key);
        self.bytes += (key.len() + update.len()) as u64 + ROW_OVERHEAD_BYTES;
        // SAFETY: R1, R2.
        unsafe { ffi::rocksdb_writebatch_merge(self.batch, chars(&row), row.len(), chars(update), update.len()) }
    }

    pub(crate) fn delete(&mut self, content: Content, key: &[u8]) {
        let row = content.row(key);
        self.bytes += key.len() as u64 + ROW_OVERHEAD_BYTES;
        // SAFETY: R1, R2.
        unsafe { ffi::rocksdb_writebatch_delete(self.batch, chars(&row), row.len()) }
    }

    /// Requires: `from < to`. Both with the content's prefix.
    pub(crate) fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        debug_assert!(from < to);
        self.bytes += (from.len() + to.len()) as u64 + ROW_OVERHEAD_BYTES;
        // SAFETY: R1, R2.
        unsafe { ffi::rocksdb_writebatch_delete_range(self.batch, chars(from), from.len(), chars(to), to.len()) }
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        // SAFETY: R1.
        unsafe { ffi::rocksdb_writebatch_destroy(self.batch) }
    }
}
