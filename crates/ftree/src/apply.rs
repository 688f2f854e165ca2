//! Taking batches into the memtable.
//!
//! - (A1) A group is checked as a whole before anything is changed; from then on nothing fails.
//! - (A2) `visible` rises to a batch's number after all its entries are in place, and a memtable is frozen between two
//!   batches: so every registered snapshot sees whole batches, and everything in a frozen memtable is visible.
//! - (A3) A tree's active part is empty, or belongs to the generation that is being filled. Trees without writes share
//!   one empty part and cost nothing when a memtable is frozen.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_base::TreeId;
use arbor_engine::{Batch, Op, TreeOptions, check_batches};

use crate::core::Core;
use crate::generation::{Generation, Writer};
use crate::memtable::MemTree;
use crate::settings::settings_of;
use crate::tree::{Inner, Tree, TreeVersion};
use crate::{Entry, Kind, RangeTombstone, Result, Seq, filter, update};

/// Errors: what makes a batch of the group inapplicable.
pub(crate) fn check(core: &Core, batches: &[&Batch]) -> Result<()> {
    let takes_updates = if core.options.updates.is_some() { Ok(()) } else { Err("ftree") };
    let check_options = |options: &TreeOptions| settings_of(options, &core.options.tree).map(drop);
    check_batches(batches, |tree| core.trees.alive(tree).is_some(), takes_updates, check_options)
}

/// Bytes that a batch adds to the memtable, roughly.
pub(crate) fn bytes_of(batch: &Batch) -> u64 {
    let bytes = |op: &Op| match op {
        Op::CreateTree { .. } | Op::DropTree { .. } => 0,
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Update { key, update, .. } => key.len() + update.len(),
        Op::Delete { key, .. } => key.len(),
        Op::DeleteRange { from, to, .. } => from.len() + to.as_ref().map_or(0, Vec::len),
    };
    batch.ops.iter().map(|op| bytes(op) as u64 + 32).sum()
}

/// Returns true if a batch only frees space: it may go into the reserve when there is no other space left.
pub(crate) fn only_frees(batch: &Batch) -> bool {
    batch.ops.iter().all(|op| matches!(op, Op::DropTree { .. } | Op::Delete { .. } | Op::DeleteRange { .. }))
}

impl Writer {
    /// Requires: checked. Afterwards the batch is in place and not visible yet.
    pub(crate) fn take(&mut self, core: &Core, batch: &Batch) {
        let seq = Seq::of(batch.position);
        assert!(seq > core.visible(), "A2: {seq:?} becomes visible after {:?}", core.visible());
        for (at, op) in batch.ops.iter().enumerate() {
            match op {
                Op::CreateTree { tree, options } => self.create(core, *tree, options, seq),
                Op::DropTree { tree } => self.drop_tree(core, *tree, seq),
                Op::Put { tree, key, value } => self.insert(core, *tree, Entry { key, seq, kind: Kind::Put, value }),
                Op::Delete { tree, key } => {
                    self.filling.frees |= core.health.is_out_of_space();
                    self.insert(core, *tree, Entry { key, seq, kind: Kind::Delete, value: &[] })
                }
                Op::Update { tree, key, update } => {
                    let value = &update::chain_of(update);
                    self.insert(core, *tree, Entry { key, seq, kind: Kind::Update, value });
                }
                Op::DeleteRange { tree, from, to } => {
                    let tombstone = RangeTombstone { from: from.clone(), to: to.clone(), seq };
                    let before = batch.ops.get(..at).unwrap_or_default();
                    self.delete_range(core, *tree, tombstone, before);
                }
            }
        }
    }

    fn create(&mut self, core: &Core, id: TreeId, options: &TreeOptions, seq: Seq) {
        let settings = settings_of(options, &core.options.tree).expect("A1: the options were checked");
        match core.trees.alive(id) {
            Some(tree) => tree.settings.store(Arc::new(settings)),
            None => {
                let tree = Tree::new(id, seq, settings, Inner::empty(), core.no_part.clone(), &core.io.cache);
                core.trees.add(Arc::new(tree));
            }
        }
    }

    fn drop_tree(&mut self, core: &Core, id: TreeId, seq: Seq) {
        self.part = None;
        self.filling.frees = true;
        if let Some(tree) = core.trees.alive(id) {
            assert!(tree.created <= seq, "an incarnation ends after it began");
            tree.dropped.store(seq.0, Ordering::Release);
            core.deletes(&tree);
            core.dropped.add(tree);
        }
    }

    fn insert(&mut self, core: &Core, id: TreeId, entry: Entry<'_>) {
        debug_assert!(entry.seq > self.frozen, "I1: the active part is newer than the frozen ones");
        let part = self.part(core, id);
        part.insert(entry, filter::hash(entry.key));
    }

    /// A range tombstone does not reach what has its own number, so what the batch itself put before goes one by one.
    fn delete_range(&mut self, core: &Core, id: TreeId, tombstone: RangeTombstone, before: &[Op]) {
        for op in before {
            let (Op::Put { tree, key, .. } | Op::Update { tree, key, .. }) = op else { continue };
            if *tree == id && tombstone.covers(key) {
                self.insert(core, id, Entry { key, seq: tombstone.seq, kind: Kind::Delete, value: &[] });
            }
        }
        if tombstone.to.as_deref().is_none_or(|to| tombstone.from.as_slice() < to) {
            self.filling.frees = true;
            self.part(core, id).delete_range(tombstone);
            core.trees.alive(id).iter().for_each(|tree| core.deletes(tree));
        }
    }

    /// The part of the tree in the generation that is being filled.
    fn part(&mut self, core: &Core, id: TreeId) -> &Arc<MemTree> {
        if self.part.as_ref().is_none_or(|(cached, _)| *cached != id) {
            let tree = core.trees.alive(id).expect("A1: that the tree exists was checked");
            self.part = Some((id, self.part_of(&tree)));
        }
        let (_, part) = self.part.as_ref().expect("it was just set");
        part
    }

    fn part_of(&mut self, tree: &Arc<Tree>) -> Arc<MemTree> {
        if tree.generation.load(Ordering::Relaxed) == self.filling.number {
            return tree.version.load().active.clone();
        }
        let part = self.filling.memtable.part(TreeId(tree.serial));
        assert!(part.is_empty(), "A3: the generation gets one part for each incarnation");
        tree.install(|current| {
            assert!(current.active.is_empty(), "A3: the part of an older generation was frozen");
            Some(TreeVersion { active: part.clone(), ..current.clone() })
        });
        tree.generation.store(self.filling.number, Ordering::Relaxed);
        self.filling.parts.push((tree.clone(), part.clone()));
        part
    }

    /// Ends the generation that is being filled: its parts become frozen ones. Requires: everything in it is visible (A2).
    pub(crate) fn freeze(&mut self, core: &Core) -> Generation {
        self.part = None;
        let next = Generation::new(self.filling.number + 1, core.options.memtable_bytes, &core.io.cache);
        let mut full = std::mem::replace(&mut self.filling, next);
        full.memtable.seal();
        full.last = core.visible();
        assert!(full.last > self.frozen, "B1: each generation ends after the one before");
        self.frozen = full.last;
        for (tree, part) in &full.parts {
            assert!(part.max_seq() <= full.last, "A2: everything in a frozen memtable is visible");
            tree.install(|current| {
                assert!(Arc::ptr_eq(&current.active, part), "A3: the active part is that of the generation");
                let mut frozen = current.frozen.clone();
                frozen.push(part.clone());
                Some(TreeVersion { active: core.no_part.clone(), frozen, root: current.root.clone() })
            });
        }
        full
    }
}
