//! Which trees there are and were: all incarnations that some reader may still see.
//!
//! The map is split by hash into shards that are replaced as a whole, so that looking up takes no lock and writes nothing
//! that others read. Only the writer and the reaper change it.

use std::collections::HashMap;
use std::sync::Arc;

use arbor_base::TreeId;
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::Seq;
use crate::tree::Tree;

const SHARDS: u64 = 256;

type Shard = HashMap<TreeId, Vec<Arc<Tree>>>;

pub struct Trees {
    shards: Box<[ArcSwap<Shard>]>,
    changing: Mutex<()>,
}

impl Default for Trees {
    fn default() -> Trees {
        let shards = (0..SHARDS).map(|_| ArcSwap::from_pointee(Shard::new())).collect();
        Trees { shards, changing: Mutex::new(()) }
    }
}

impl Trees {
    /// Runs `see` on the incarnation that a reader at `at` sees.
    pub fn with<R>(&self, id: TreeId, at: Seq, see: impl FnOnce(&Arc<Tree>) -> R) -> Option<R> {
        let shard = self.shard(id).load();
        shard.get(&id)?.iter().rev().find(|tree| tree.exists_at(at)).map(see)
    }

    pub fn find(&self, id: TreeId, at: Seq) -> Option<Arc<Tree>> {
        self.with(id, at, Arc::clone)
    }

    /// The incarnation that is not dropped.
    pub fn alive(&self, id: TreeId) -> Option<Arc<Tree>> {
        let shard = self.shard(id).load();
        shard.get(&id)?.iter().rev().find(|tree| tree.is_alive()).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Tree>> {
        self.shards.iter().flat_map(|shard| shard.load().values().flatten().cloned().collect::<Vec<_>>()).collect()
    }

    /// Returns the trees that a reader at `at` sees, in the order of ids.
    pub fn all_at(&self, at: Seq) -> Vec<Arc<Tree>> {
        let mut trees = self.all();
        trees.retain(|tree| tree.exists_at(at));
        trees.sort_unstable_by_key(|tree| tree.id);
        trees
    }

    /// Requires: newer than the other incarnations of this id.
    pub fn add(&self, tree: Arc<Tree>) {
        self.change(tree.id, |incarnations| {
            let is_next = incarnations.last().is_none_or(|before| before.dropped() <= tree.created);
            assert!(is_next, "tree {} has one incarnation at a time", tree.id);
            incarnations.push(tree);
        });
    }

    pub fn remove(&self, tree: &Arc<Tree>) {
        self.change(tree.id, |incarnations| incarnations.retain(|other| !Arc::ptr_eq(other, tree)));
    }

    fn change(&self, id: TreeId, change: impl FnOnce(&mut Vec<Arc<Tree>>)) {
        let _changing = self.changing.lock();
        let mut shard = Shard::clone(&self.shard(id).load());
        change(shard.entry(id).or_default());
        shard.retain(|_, incarnations| !incarnations.is_empty());
        self.shard(id).store(Arc::new(shard));
    }

    fn shard(&self, id: TreeId) -> &ArcSwap<Shard> {
        let hash = arbor_base::scatter(id.0) >> 32;
        self.shards.get((hash % SHARDS) as usize).expect("the remainder is less than the number of shards")
    }
}
