//! A frozen memtable becomes runs in the root's slots, or leaves at once (see [`direct`](super::direct)).
//!
//! - (B1) Generations are absorbed in order, each one completely before the next.
//! - (B2) A generation enters all roots or none: the runs of all its parts are written before the first root changes, and
//!   installing them cannot fail. So whenever no turn is taken the roots hold exactly what was applied up to
//!   [`Backlog::absorbed`](super::backlog::Backlog::absorbed), which is where a checkpoint captures them; a full disk in between leaves no root ahead.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_base::sometimes;

use super::direct::{self, DirectLeaves};
use super::{NewRun, attach, cut, runs};
use crate::core::Core;
use crate::counters::Counter;
use crate::flush::backlog::Turn;
use crate::generation::Generation;
use crate::memtable::MemTree;
use crate::tree::install::root_of;
use crate::tree::{Bounds, Inner, Tree, TreeVersion};
use crate::{RangeTombstone, Result, Seq};

/// Result of absorbing.
pub struct Absorbed {
    pub bytes: u64,
    /// Those less the debt that they made.
    pub paid: i64,
}

impl Turn<'_> {
    /// Absorbs the oldest generation. `None`: none waits. After an error it waits as a whole (B2).
    pub fn absorb_one(&self, core: &Core) -> Result<Option<Absorbed>> {
        self.absorb(core, 1)
    }

    /// Absorbs what waits up to the last generation that frees space, as if it were one: what it deletes of the ones
    /// before is not written. The rest may be taken from the reserve, since more than that comes back.
    pub fn absorb_freeing(&self, core: &Core) -> Result<Option<Absorbed>> {
        let last = self.backlog.lock().iter().rposition(|generation| generation.frees);
        let Some(last) = last else { return Ok(None) };
        let _reserve = core.io.space.open_reserve();
        self.absorb(core, last + 1)
    }

    fn absorb(&self, core: &Core, at_most: usize) -> Result<Option<Absorbed>> {
        let generations: Vec<Arc<Generation>> = self.backlog.lock().iter().take(at_most).cloned().collect();
        let Some(last) = generations.last().map(|newest| newest.last) else { return Ok(None) };
        assert!(last > self.backlog.absorbed(), "B1: {last:?} is absorbed after {:?}", self.backlog.absorbed());
        if generations.len() > 1 {
            sometimes!("ftree: several memtables are absorbed as one");
        }
        let parts = parts_by_tree(&generations).into_iter();
        let prepared = parts.map(|(tree, parts)| Prepared::new(core, tree, parts, last)).collect::<Result<Vec<_>>>()?;
        let paid: i64 = prepared.into_iter().map(|prepared| prepared.install(core)).sum();
        let mut waiting = self.backlog.lock();
        let still = waiting.iter().zip(&generations).all(|(waiting, absorbed)| Arc::ptr_eq(waiting, absorbed));
        assert!(still && waiting.len() >= generations.len(), "B1: a generation waits until it is absorbed");
        waiting.drain(..generations.len());
        drop(waiting);
        self.backlog.absorbed.store(last.0, Ordering::Release);
        let bytes: u64 = generations.iter().map(|generation| generation.memtable.bytes()).sum();
        core.io.counters.add(Counter::AbsorbJobs, 1);
        core.io.counters.add(Counter::AbsorbedBytes, bytes);
        Ok(Some(Absorbed { bytes, paid: bytes as i64 + paid }))
    }
}

/// Oldest first.
type Parts = Vec<Arc<MemTree>>;

fn parts_by_tree(generations: &[Arc<Generation>]) -> Vec<(&Arc<Tree>, Parts)> {
    let mut places = HashMap::new();
    let mut trees: Vec<(&Arc<Tree>, Parts)> = Vec::new();
    for (tree, part) in generations.iter().flat_map(|generation| &generation.parts) {
        let at = *places.entry(tree.serial).or_insert(trees.len());
        match trees.get_mut(at) {
            Some((_, parts)) => parts.push(part.clone()),
            None => trees.push((tree, vec![part.clone()])),
        }
    }
    trees
}

/// Parts of one tree whose runs or leaves are written and in no root yet. Dropping it frees them.
struct Prepared<'g> {
    tree: &'g Arc<Tree>,
    parts: Parts,
    /// Range tombstones that every snapshot sees: what they cover is unlinked.
    cuts: Vec<RangeTombstone>,
    runs: Vec<NewRun>,
    /// In the place of runs.
    direct: Vec<DirectLeaves<'g>>,
}

impl<'g> Prepared<'g> {
    /// `last`: the end of the generations that the parts belong to.
    fn new(core: &'g Core, tree: &'g Arc<Tree>, parts: Parts, last: Seq) -> Result<Prepared<'g>> {
        assert!(parts.iter().all(|part| part.max_seq() <= last), "B2: a part holds nothing newer than its generation");
        if core.is_unseen(tree, last) {
            sometimes!("ftree: a dropped tree is not absorbed");
            return Ok(Prepared { tree, parts, cuts: Vec::new(), runs: Vec::new(), direct: Vec::new() });
        }
        if let [part] = parts.as_slice()
            && let Some(direct) = direct::leaves_of(core, tree, part)?
        {
            return Ok(Prepared { tree, parts, cuts: Vec::new(), runs: Vec::new(), direct });
        }
        let oldest = core.snapshots.oldest();
        let is_total = |tombstone: &RangeTombstone| oldest.is_none_or(|oldest| oldest >= tombstone.seq);
        let tombstones = parts.iter().flat_map(|part| part.tombstones().to_vec());
        let cuts: Vec<RangeTombstone> = tombstones.filter(is_total).collect();
        let runs = runs::of_parts(core, tree, &parts, &without_ranges(tree.root(), &cuts))?;
        Ok(Prepared { tree, parts, cuts, runs, direct: Vec::new() })
    }

    /// Cannot fail (B2). Returns the change of the tree's debt.
    fn install(self, core: &Core) -> i64 {
        let tree = self.tree;
        tree.install(|current| Some(self.over(current)));
        self.direct.iter().for_each(|direct| direct.count(core));
        core.installed();
        core.note_buffered(tree);
        let paid = core.note_debt(tree);
        core.plan_root(tree);
        paid
    }

    /// In the same version as the runs appear the parts are gone: readers see each message once.
    fn over(&self, current: &TreeVersion) -> TreeVersion {
        let is_next = |(part, frozen): (&Arc<MemTree>, &Arc<MemTree>)| Arc::ptr_eq(part, frozen);
        let oldest = self.parts.len() <= current.frozen.len() && self.parts.iter().zip(&current.frozen).all(is_next);
        assert!(oldest, "B1: the oldest frozen parts are absorbed");
        let frozen = current.frozen.iter().skip(self.parts.len()).cloned().collect();
        let mut root = without_ranges(current.root.clone(), &self.cuts);
        let newest = root.totals().newest;
        let is_newer = |run: &NewRun| run.table.meta.min_seq > newest;
        assert!(self.runs.iter().all(is_newer), "I1: what is absorbed is newer than the root, which has {newest:?}");
        assert!(self.direct.is_empty() || self.runs.is_empty(), "P1: runs and leaves of one part");
        for direct in &self.direct {
            root = direct.install(&root, fanout(self.tree));
        }
        if !self.runs.is_empty() {
            root = root_of(root.level, attach(&root, &Bounds::all(), &self.runs), fanout(self.tree));
        }
        TreeVersion { active: current.active.clone(), frozen, root }
    }
}

pub fn fanout(tree: &Tree) -> usize {
    tree.settings.load().fanout.max(2) as usize
}

/// The root without the slots that lie wholly inside the ranges.
fn without_ranges(root: Arc<Inner>, cuts: &[RangeTombstone]) -> Arc<Inner> {
    cuts.iter().fold(root, |root, tombstone| match cut::cut(&root, &Bounds::all(), tombstone) {
        Some(content) => root_of(root.level, content, usize::MAX),
        None => root,
    })
}
