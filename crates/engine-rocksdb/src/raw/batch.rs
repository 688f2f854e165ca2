//! Changes that RocksDB makes together.

use std::ffi::c_char;

use librocksdb_sys as ffi;

pub struct WriteBatch {
    pub(super) batch: *mut ffi::rocksdb_writebatch_t,
    /// Bytes of keys and values, and what a memtable adds to each row.
    pub bytes: u64,
}

/// A skip list node and the row's header, about.
const ROW_OVERHEAD_BYTES: u64 = 64;

pub(super) fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

impl WriteBatch {
    #[allow(unsafe_code)]
    pub fn new() -> WriteBatch {
        // SAFETY: R1.
        let batch = unsafe { ffi::rocksdb_writebatch_create() };
        WriteBatch { batch, bytes: 0 }
    }

    #[allow(unsafe_code)]
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.bytes += (key.len() + value.len()) as u64 + ROW_OVERHEAD_BYTES;
        // SAFETY: R1, R2.
        unsafe { ffi::rocksdb_writebatch_put(self.batch, chars(key), key.len(), chars(value), value.len()) }
    }

    #[allow(unsafe_code)]
    pub fn delete(&mut self, key: &[u8]) {
        self.bytes += key.len() as u64 + ROW_OVERHEAD_BYTES;
        // SAFETY: R1, R2.
        unsafe { ffi::rocksdb_writebatch_delete(self.batch, chars(key), key.len()) }
    }

    /// Requires: `from < to`.
    #[allow(unsafe_code)]
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        debug_assert!(from < to);
        self.bytes += (from.len() + to.len()) as u64 + ROW_OVERHEAD_BYTES;
        // SAFETY: R1, R2.
        unsafe { ffi::rocksdb_writebatch_delete_range(self.batch, chars(from), from.len(), chars(to), to.len()) }
    }
}

impl Drop for WriteBatch {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: R1.
        unsafe { ffi::rocksdb_writebatch_destroy(self.batch) }
    }
}
