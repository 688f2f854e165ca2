//! One tree's part of a memtable.

use std::sync::Arc;

use arbor_base::TreeId;
use arc_swap::Guard;

use super::{MemCursor, OwnedMemCursor};
use crate::{Entry, RangeTombstone, Seq};

pub struct MemTree {}

impl MemTree {
    pub fn tree(&self) -> TreeId {
        unimplemented!()
    }

    /// Requires: one thread at a time; `hash` is [`crate::filter::hash`] of the key.
    pub fn insert(&self, _entry: Entry<'_>, _hash: u64) {
        unimplemented!()
    }

    pub fn delete_range(&self, _tombstone: RangeTombstone) {
        unimplemented!()
    }

    /// `false`: no entry has this key. Says nothing about range tombstones.
    pub fn may_contain(&self, _hash: u64) -> bool {
        unimplemented!()
    }

    /// Neither entries nor range tombstones.
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }

    pub fn entries(&self) -> usize {
        unimplemented!()
    }

    pub fn bytes(&self) -> u64 {
        unimplemented!()
    }

    /// `Seq(u64::MAX)` while it is empty.
    pub fn min_seq(&self) -> Seq {
        unimplemented!()
    }

    /// Zero while it is empty.
    pub fn max_seq(&self) -> Seq {
        unimplemented!()
    }

    /// In the order in which they came.
    pub fn tombstones(&self) -> Guard<Arc<Vec<RangeTombstone>>> {
        unimplemented!()
    }

    pub fn cursor(&self) -> MemCursor<'_> {
        unimplemented!()
    }

    /// A cursor that keeps the part alive.
    pub fn owned_cursor(self: &Arc<Self>) -> OwnedMemCursor {
        unimplemented!()
    }
}
