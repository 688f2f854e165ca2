//! One tree's part of a memtable.

use std::sync::Arc;

use arbor_base::TreeId;
use arc_swap::{ArcSwap, Guard};

use super::filter::Salt;
use super::generation::Generation;
use super::skip_list::SkipList;
use super::sync::{AtomicU64, AtomicUsize, Ordering};
use super::{MemCursor, OwnedMemCursor};
use crate::{Entry, RangeTombstone, Seq};

/// Size of a part without entries, with its places in the lists and maps of parts.
const PART_BYTES: u64 = (size_of::<MemTree>() + 256) as u64;

/// One thread at a time changes it, any number read it meanwhile.
pub struct MemTree {
    tree: TreeId,
    salt: Salt,
    generation: Arc<Generation>,
    list: SkipList,
    tombstones: ArcSwap<Vec<RangeTombstone>>,
    entries: AtomicUsize,
    bytes: AtomicU64,
    min_seq: AtomicU64,
    max_seq: AtomicU64,
}

impl MemTree {
    pub(super) fn new(tree: TreeId, generation: &Arc<Generation>) -> MemTree {
        generation.add_part(PART_BYTES);
        MemTree {
            tree,
            salt: Salt::of(tree),
            generation: generation.clone(),
            list: SkipList::new(),
            tombstones: ArcSwap::default(),
            entries: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            min_seq: AtomicU64::new(u64::MAX),
            max_seq: AtomicU64::new(0),
        }
    }

    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// Requires: called by one thread at a time; `hash` is [`crate::filter::hash`] of the key.
    /// Ensures: readers that begin once a later store (Release) raised what is visible find the entry.
    pub fn insert(&self, entry: Entry<'_>, hash: u64) {
        self.generation.filter().add(hash, self.salt);
        let grown_bytes = self.list.insert(&entry);
        self.entries.store(self.entries() + 1, Ordering::Relaxed);
        self.note(entry.seq, grown_bytes);
    }

    /// Requires: as `insert`.
    pub fn delete_range(&self, tombstone: RangeTombstone) {
        let bytes = size_of::<RangeTombstone>() + tombstone.from.len() + tombstone.to.as_ref().map_or(0, Vec::len);
        let seq = tombstone.seq;
        let mut tombstones = Vec::clone(&self.tombstones.load());
        tombstones.push(tombstone);
        self.tombstones.store(Arc::new(tombstones));
        self.note(seq, bytes);
    }

    fn note(&self, seq: Seq, grown_bytes: usize) {
        // There is one writer, so nothing is lost between load and store.
        if seq < self.min_seq() {
            self.min_seq.store(seq.0, Ordering::Relaxed);
        }
        if seq > self.max_seq() {
            self.max_seq.store(seq.0, Ordering::Relaxed);
        }
        if grown_bytes > 0 {
            self.bytes.fetch_add(grown_bytes as u64, Ordering::Relaxed);
            self.generation.grow(grown_bytes as u64);
        }
    }

    /// `false`: no entry has this key. Says nothing about range tombstones.
    pub fn may_contain(&self, hash: u64) -> bool {
        self.generation.filter().may_contain(hash, self.salt)
    }

    /// Neither entries nor range tombstones.
    pub fn is_empty(&self) -> bool {
        self.max_seq.load(Ordering::Relaxed) == 0 && self.min_seq.load(Ordering::Relaxed) == u64::MAX
    }

    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Memory of entries and range tombstones, with what is allocated ahead.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// `Seq(u64::MAX)` while it is empty.
    pub fn min_seq(&self) -> Seq {
        Seq(self.min_seq.load(Ordering::Relaxed))
    }

    /// Zero while it is empty.
    pub fn max_seq(&self) -> Seq {
        Seq(self.max_seq.load(Ordering::Relaxed))
    }

    /// In the order in which they came.
    pub fn tombstones(&self) -> Guard<Arc<Vec<RangeTombstone>>> {
        self.tombstones.load()
    }

    pub fn cursor(&self) -> MemCursor<'_> {
        MemCursor::new(self)
    }

    /// A cursor that keeps the part alive.
    pub fn owned_cursor(self: &Arc<Self>) -> OwnedMemCursor {
        OwnedMemCursor::new(self.clone())
    }

    pub(super) fn list(&self) -> &SkipList {
        &self.list
    }
}
