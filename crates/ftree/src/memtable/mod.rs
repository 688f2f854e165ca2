//! The memtable: changes that were applied and are not absorbed by the trees yet.
//!
//! A [`Memtable`] is one generation over all trees: it fills up, is sealed, is absorbed tree by tree, and goes. Each tree
//! has its part, a [`MemTree`]: a skip list in an arena of its own, with its range tombstones. The parts share one filter.
//!
//! One thread at a time inserts (`apply`); readers take no lock and see by sequence number. Lock order: the list of
//! parts before a part.

mod arena;
mod cursor;
mod filter;
mod generation;
mod order;
mod skip_list;
#[cfg(all(test, loom))]
mod skip_list_model;
#[cfg(all(test, not(loom)))]
mod skip_list_tests;
mod sync;
mod tree_part;

use std::collections::HashMap;
use std::sync::Arc;

use arbor_base::TreeId;
use parking_lot::{Mutex, MutexGuard};

pub use self::cursor::{Cursor, MemCursor, OwnedMemCursor};
use self::generation::Generation;
pub use self::tree_part::MemTree;
use crate::cache::Cache;

/// One generation over all trees.
pub struct Memtable {
    generation: Arc<Generation>,
    parts: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    by_tree: HashMap<TreeId, Arc<MemTree>>,
    sealed: bool,
}

impl Memtable {
    /// `limit_bytes`: at what size it will be sealed; the filter is made for that many rows.
    pub fn new(limit_bytes: u64) -> Arc<Memtable> {
        Memtable::of(Generation::new(limit_bytes, None))
    }

    /// Like `new`, but with its memory charged to the budget until the memtable and all its parts are dropped.
    pub fn charged(limit_bytes: u64, cache: &Cache) -> Arc<Memtable> {
        Memtable::of(Generation::new(limit_bytes, Some(cache.charge(0))))
    }

    fn of(generation: Generation) -> Arc<Memtable> {
        Arc::new(Memtable { generation: Arc::new(generation), parts: Mutex::default() })
    }

    /// Memory of all parts' entries and range tombstones; the filter comes on top.
    pub fn bytes(&self) -> u64 {
        self.generation.bytes()
    }

    /// The tree's part, made when it is not there yet. Requires: not sealed.
    pub fn part(&self, tree: TreeId) -> Arc<MemTree> {
        let mut parts = self.parts();
        assert!(!parts.sealed, "a sealed memtable gets no new parts");
        parts.by_tree.entry(tree).or_insert_with(|| Arc::new(MemTree::new(tree, &self.generation))).clone()
    }

    /// The parts that hold something, by tree.
    pub fn dirty_parts(&self) -> Vec<Arc<MemTree>> {
        let mut dirty: Vec<Arc<MemTree>> =
            self.parts().by_tree.values().filter(|part| !part.is_empty()).cloned().collect();
        dirty.sort_by_key(|part| part.tree());
        dirty
    }

    /// From now on nothing may be inserted. Requires: no insert under way.
    pub fn seal(&self) {
        let before = std::mem::replace(&mut self.parts().sealed, true);
        assert!(!before, "a memtable is frozen once");
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Entry, Kind, RangeTombstone, Seq};

    fn put(part: &MemTree, key: u64, seq: u64) {
        let key = key.to_be_bytes();
        part.insert(Entry { key: &key, seq: Seq(seq), kind: Kind::Put, value: b"value" }, hash(&key));
    }

    fn hash(key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64(key)
    }

    #[test]
    fn parts_are_made_once_and_the_dirty_ones_listed() {
        let memtable = Memtable::new(1 << 20);
        for tree in [3, 1, 2] {
            assert!(Arc::ptr_eq(&memtable.part(TreeId(tree)), &memtable.part(TreeId(tree))));
        }
        assert_eq!((memtable.dirty_parts().len(), memtable.bytes()), (0, 0));
        put(&memtable.part(TreeId(3)), 1, 5);
        let tombstone = RangeTombstone { from: b"a".to_vec(), to: None, seq: Seq(9) };
        memtable.part(TreeId(1)).delete_range(tombstone.clone());
        memtable.seal();
        let dirty: Vec<_> =
            memtable.dirty_parts().iter().map(|part| (part.tree(), part.entries(), part.max_seq())).collect();
        assert_eq!(dirty, [(TreeId(1), 0, Seq(9)), (TreeId(3), 1, Seq(5))]);
        assert_eq!(**memtable.dirty_parts()[0].tombstones(), [tombstone]);
        assert_eq!(memtable.bytes(), memtable.dirty_parts().iter().map(|part| part.bytes()).sum());
    }

    #[test]
    fn a_part_knows_its_bounds_and_its_keys() {
        let memtable = Memtable::new(1 << 16);
        let (part, other) = (memtable.part(TreeId(1)), memtable.part(TreeId(2)));
        assert_eq!((part.is_empty(), part.min_seq(), part.max_seq()), (true, Seq(u64::MAX), Seq(0)));
        (0..100).for_each(|i| put(&part, i, 100 + (i + 50) % 100));
        assert_eq!((part.is_empty(), part.entries(), part.min_seq(), part.max_seq()), (false, 100, Seq(100), Seq(199)));
        assert!((0u64..100).all(|i| part.may_contain(hash(&i.to_be_bytes()))));
        assert!((0u64..100).filter(|i| other.may_contain(hash(&i.to_be_bytes()))).count() < 10);
    }

    #[test]
    fn small_trees_take_little() {
        let memtable = Memtable::new(1 << 20);
        (0..100).for_each(|tree| put(&memtable.part(TreeId(tree)), 1, 1));
        assert!(memtable.bytes() <= 100 * 1024, "{} bytes", memtable.bytes());
    }

    #[test]
    fn memory_is_charged_until_the_last_part_goes() {
        let cache = Cache::new(1 << 30);
        let memtable = Memtable::charged(1 << 16, &cache);
        let filter_bytes = cache.used();
        let part = memtable.part(TreeId(1));
        let empty_bytes = cache.used();
        (0..200).for_each(|i| put(&part, i, i));
        assert!(0 < filter_bytes && filter_bytes < empty_bytes && memtable.bytes() > 200 * 40);
        assert_eq!(cache.used(), empty_bytes + memtable.bytes());
        drop(memtable);
        assert!(cache.used() > empty_bytes);
        drop(part);
        assert_eq!(cache.used(), 0);
    }

    #[test]
    fn cursors_walk_both_ways_and_outlive_the_memtable() {
        let memtable = Memtable::new(1 << 16);
        let part = memtable.part(TreeId(1));
        (0..40).for_each(|i| put(&part, i / 2, i));
        let mut cursor = part.owned_cursor();
        drop((memtable, part));
        let here = |cursor: &OwnedMemCursor| cursor.entry().map(|entry| (entry.key[7], entry.seq.0));
        assert_eq!(here(&cursor), None);
        cursor.seek(&7u64.to_be_bytes());
        assert_eq!(here(&cursor), Some((7, 15)));
        cursor.next();
        assert_eq!(here(&cursor), Some((7, 14)));
        cursor.seek_at(&7u64.to_be_bytes(), Seq(14));
        assert_eq!(here(&cursor), Some((7, 14)));
        cursor.seek_before(&7u64.to_be_bytes());
        assert_eq!(here(&cursor), Some((6, 12)));
        cursor.prev();
        assert_eq!(here(&cursor), Some((6, 13)));
        cursor.first();
        assert_eq!(here(&cursor), Some((0, 1)));
        cursor.prev();
        assert_eq!(here(&cursor), None);
        cursor.last();
        assert_eq!(here(&cursor), Some((19, 38)));
        cursor.next();
        assert_eq!(here(&cursor), None);
    }
}
