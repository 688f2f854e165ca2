//! An iterator over the rows of one content.

use std::ffi::c_char;
use std::marker::PhantomData;
use std::path::Path;
use std::{ptr, slice};

use arbor_engine::Result;

use super::batch::chars;
use super::db::{Db, RawSnapshot};
use super::error::checked;
use super::{ffi, value_of};
use crate::records::Content;

/// Keys here are without the content's prefix. Unpositioned at first. Every move returns true if it is on a row then.
pub(crate) struct Rows<'d> {
    iterator: *mut ffi::rocksdb_iterator_t,
    /// The iterator reads the options and the bounds as long as it lives.
    read: *mut ffi::rocksdb_readoptions_t,
    bounds: Box<[[u8; 8]; 2]>,
    dir: &'d Path,
    place: PhantomData<&'d Db>,
}

// SAFETY: R3; `&mut self` moves it, and reads of key and value change nothing.
unsafe impl Send for Rows<'_> {}

impl<'d> Rows<'d> {
    pub(super) fn new(db: &'d Db, content: Content, snapshot: Option<&'d RawSnapshot>) -> Rows<'d> {
        let bounds = Box::new([content.prefix(), content.end()]);
        let [lower, upper] = &*bounds;
        // SAFETY: R1, R4; the bounds are on the heap and dropped after the iterator.
        unsafe {
            let read = ffi::rocksdb_readoptions_create();
            if let Some(snapshot) = snapshot {
                ffi::rocksdb_readoptions_set_snapshot(read, snapshot.pointer());
            }
            ffi::rocksdb_readoptions_set_iterate_lower_bound(read, chars(lower), 8);
            ffi::rocksdb_readoptions_set_iterate_upper_bound(read, chars(upper), 8);
            let iterator = ffi::rocksdb_create_iterator(db.pointer(), read);
            Rows { iterator, read, bounds, dir: db.dir(), place: PhantomData }
        }
    }

    fn row(&self, key: &[u8]) -> Vec<u8> {
        let [lower, _] = &*self.bounds;
        [lower, key].concat()
    }

    pub(crate) fn valid(&self) -> bool {
        // SAFETY: R1.
        unsafe { ffi::rocksdb_iter_valid(self.iterator) != 0 }
    }

    /// Skips leftovers of ended rows. An iterator that ran off an end and one that failed look alike.
    fn arrived(&mut self, step: unsafe extern "C" fn(*mut ffi::rocksdb_iterator_t)) -> Result<bool> {
        while self.valid() {
            if !self.slice(ffi::rocksdb_iter_value).is_empty() {
                return Ok(true);
            }
            // SAFETY: R1; it is on a row.
            unsafe { step(self.iterator) }
        }
        // SAFETY: R1.
        checked(self.dir, "read", |error| unsafe { ffi::rocksdb_iter_get_error(self.iterator, error) })?;
        Ok(false)
    }

    /// To the first row with `key >= target`.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<bool> {
        let target = self.row(target);
        // SAFETY: R1, R2.
        unsafe { ffi::rocksdb_iter_seek(self.iterator, chars(&target), target.len()) }
        self.arrived(ffi::rocksdb_iter_next)
    }

    /// To the last row with `key <= target`.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) -> Result<bool> {
        let target = self.row(target);
        // SAFETY: R1, R2.
        unsafe { ffi::rocksdb_iter_seek_for_prev(self.iterator, chars(&target), target.len()) }
        self.arrived(ffi::rocksdb_iter_prev)
    }

    pub(crate) fn last(&mut self) -> Result<bool> {
        // SAFETY: R1.
        unsafe { ffi::rocksdb_iter_seek_to_last(self.iterator) }
        self.arrived(ffi::rocksdb_iter_prev)
    }

    /// From nowhere it goes nowhere.
    pub(crate) fn next(&mut self) -> Result<bool> {
        if !self.valid() {
            return Ok(false);
        }
        // SAFETY: R1; it is on a row.
        unsafe { ffi::rocksdb_iter_next(self.iterator) }
        self.arrived(ffi::rocksdb_iter_next)
    }

    pub(crate) fn prev(&mut self) -> Result<bool> {
        if !self.valid() {
            return Ok(false);
        }
        // SAFETY: R1; it is on a row.
        unsafe { ffi::rocksdb_iter_prev(self.iterator) }
        self.arrived(ffi::rocksdb_iter_prev)
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.slice(ffi::rocksdb_iter_key).get(8..).expect("I1: every key begins with its content")
    }

    pub(crate) fn value(&self) -> &[u8] {
        value_of(self.slice(ffi::rocksdb_iter_value)).expect("I2: it is on a row that is there")
    }

    fn slice(&self, get: unsafe extern "C" fn(*const ffi::rocksdb_iterator_t, *mut usize) -> *const c_char) -> &[u8] {
        assert!(self.valid(), "cursor contract: key and value only while the cursor is on an entry");
        let mut length = 0;
        // SAFETY: it is on a row, whose bytes stay until the next move, which needs `&mut self`.
        unsafe {
            let bytes = get(self.iterator, ptr::from_mut(&mut length));
            if length == 0 { &[] } else { slice::from_raw_parts(bytes.cast(), length) }
        }
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // SAFETY: R1; the iterator goes before its options.
        unsafe {
            ffi::rocksdb_iter_destroy(self.iterator);
            ffi::rocksdb_readoptions_destroy(self.read);
        }
    }
}
