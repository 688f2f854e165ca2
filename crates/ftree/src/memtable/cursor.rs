//! Walking over one tree's part of a memtable, both ways.

use std::sync::Arc;

use super::MemTree;
use super::skip_list::{Place, SkipList};
use crate::{Entry, Seq};

/// Is on one entry or on none, at first on none. It finds what was visible before its last seek; entries that were
/// inserted later it may pass over or not.
pub struct Cursor<H> {
    holder: H,
    place: Place,
}

/// Borrows the part.
pub type MemCursor<'a> = Cursor<&'a MemTree>;
/// Keeps the part alive.
pub type OwnedMemCursor = Cursor<Arc<MemTree>>;

/// Owner that keeps a cursor's list alive; always the same list.
pub(super) trait Holder {
    fn list(&self) -> &SkipList;
}

impl Holder for &MemTree {
    fn list(&self) -> &SkipList {
        MemTree::list(self)
    }
}

impl Holder for Arc<MemTree> {
    fn list(&self) -> &SkipList {
        MemTree::list(self)
    }
}

#[expect(private_bounds, reason = "holders are the two kinds of reference to a part")]
impl<H: Holder> Cursor<H> {
    pub(super) fn new(holder: H) -> Cursor<H> {
        Cursor { holder, place: Place::NONE }
    }

    pub fn first(&mut self) {
        self.place = self.holder.list().seek_first();
    }

    pub fn last(&mut self) {
        self.place = self.holder.list().seek_last();
    }

    /// To the newest entry of the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.seek_at(key, Seq(u64::MAX));
    }

    /// To the first entry at or after (`key`, `at`) in the order E1: entries of `key` newer than `at` are passed over.
    pub fn seek_at(&mut self, key: &[u8], at: Seq) {
        self.place = self.holder.list().seek(key, at);
    }

    /// To the last entry whose key is before `key`: the oldest of its key.
    pub fn seek_before(&mut self, key: &[u8]) {
        self.place = self.holder.list().seek_before(key, Seq(u64::MAX));
    }

    /// Onwards; from no entry to no entry.
    pub fn next(&mut self) {
        self.place = self.holder.list().next(self.place);
    }

    /// Back; from no entry to no entry.
    pub fn prev(&mut self) {
        self.place = self.holder.list().prev(self.place);
    }

    /// The current entry; `None` after the last entry, before the first one, and before the first seek.
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.holder.list().entry(self.place)
    }
}
