//! The ordered structure of a memtable part.

use std::sync::Arc;

use super::MemTree;
use crate::{Entry, Seq};

/// Stands on one entry or on none. `H` keeps the entries alive.
pub struct Cursor<H> {
    _holder: H,
}

pub type MemCursor<'a> = Cursor<&'a MemTree>;
pub type OwnedMemCursor = Cursor<Arc<MemTree>>;

impl<H> Cursor<H> {
    pub fn first(&mut self) {
        unimplemented!()
    }

    pub fn last(&mut self) {
        unimplemented!()
    }

    /// The newest entry of the first key at or behind `key`.
    pub fn seek(&mut self, _key: &[u8]) {
        unimplemented!()
    }

    /// The first entry at or behind (`key`, `at`) in the order E1: entries of `key` newer than `at` are passed over.
    pub fn seek_at(&mut self, _key: &[u8], _at: Seq) {
        unimplemented!()
    }

    /// The last entry whose key is before `key`: the oldest of its key.
    pub fn seek_before(&mut self, _key: &[u8]) {
        unimplemented!()
    }

    pub fn next(&mut self) {
        unimplemented!()
    }

    pub fn prev(&mut self) {
        unimplemented!()
    }

    /// Where it stands; `None` behind the last entry, before the first one, and before the first seek.
    pub fn entry(&self) -> Option<Entry<'_>> {
        unimplemented!()
    }
}
