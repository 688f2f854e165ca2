//! A part of a memtable becomes leaves at once, past all buffers.
//!
//! If keys ascend, by one writer or by several in ranges of their own, a part is for few leaves, each of which it makes due. On its way
//! through the levels it would be written as runs, read again and written as leaves.
//!
//! - (P1) All of a part becomes leaves, or nothing of it: the rest would wait above a leaf that is as new (I1).
//! - (P2) No messages wait on the path above the leaves' own slots: these would be older than the leaves under them (I1). None come
//!   meanwhile: only absorbing puts messages into the root, one thread at a time, and a node gets them from the slot above, where none are.
//! - (P3) The slots are claimed as by jobs until the leaves are in the root, so installing cannot fail (B2). A slot that holds nothing is no
//!   target, unless it is the whole tree: any change of its node may join it with a neighbour.

use std::sync::Arc;

use arbor_base::sometimes;

use super::leaf::{Consumed, replace};
use super::runs;
use crate::core::Core;
use crate::health::key_of;
use crate::memtable::MemTree;
use crate::merge::LargeValuePolicy;
use crate::table::Table;
use crate::tree::install::edit;
use crate::tree::{Bounds, Child, Inner, Place, Slot, Tree};
use crate::work::scheduler::Scheduler;
use crate::{Counter, Entry, Result, TreeSettings};

/// Leaves that one part may be for: the thread that absorbs makes them one after another.
const TARGETS_MAX: usize = 16;
/// The part of a leaf that makes a slot due at once.
const LEAF_PART: u64 = 4;
/// Bytes of an entry in a leaf in addition to key and value, as blocks count them.
const ENTRY_BYTES: usize = 2;

/// A slot over a leaf and how much a part has for it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Target {
    bounds: Bounds,
    bytes: u64,
}

impl Target {
    fn place(&self) -> Place {
        Place { level: 1, bounds: self.bounds.clone() }
    }
}

/// Leaves in the place of one slot, in no root yet. Dropping them frees them.
pub struct DirectLeaves<'c> {
    consumed: [Consumed; 1],
    leaves: Vec<(Vec<u8>, Arc<Table>)>,
    /// Bytes of the part.
    pub bytes: u64,
    claim: Claim<'c>,
}

/// The right to change a slot.
struct Claim<'c> {
    scheduler: &'c Scheduler,
    tree: Arc<Tree>,
    place: Place,
}

impl<'c> Claim<'c> {
    fn take(core: &'c Core, tree: &Arc<Tree>, place: Place) -> Option<Claim<'c>> {
        let scheduler = &core.work.scheduler;
        let is_free = !core.health.is_put_aside(&key_of(tree, &place)) && scheduler.claim(tree, &place);
        is_free.then(|| Claim { scheduler, tree: tree.clone(), place })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.scheduler.release(&self.tree, &self.place);
    }
}

/// Makes leaves of a part if it is enough for each that it is for. Requires: the thread absorbs, and the part is the oldest of its tree.
pub fn leaves_of<'c>(core: &'c Core, tree: &Arc<Tree>, part: &Arc<MemTree>) -> Result<Option<Vec<DirectLeaves<'c>>>> {
    let settings = tree.settings.load_full();
    let Some(targets) = targets_of(&tree.root(), part, &settings) else { return Ok(None) };
    let claims: Option<Vec<Claim<'c>>> = targets.iter().map(|target| Claim::take(core, tree, target.place())).collect();
    let Some(claims) = claims else { return Ok(None) };
    // a job may have changed a slot before it was claimed
    let root = tree.root();
    if targets_of(&root, part, &settings).as_ref() != Some(&targets) {
        return Ok(None);
    }
    if targets.len() > 1 {
        sometimes!("ftree: a memtable goes to several leaves at once");
    }
    let mut direct = Vec::with_capacity(targets.len());
    for (target, claim) in targets.into_iter().zip(claims) {
        let Some((slot, _)) = path_to(&root, &target.bounds.from) else { return Ok(None) };
        let (bytes, consumed) = (target.bytes, [Consumed::of(slot, target.bounds)]);
        let leaves = runs::leaves(core, tree, &consumed, Some((part, bytes)), LargeValuePolicy::Stay)?;
        direct.push(DirectLeaves { consumed, leaves, bytes, claim });
    }
    sometimes!("ftree: a memtable goes to leaves at once");
    Ok(Some(direct))
}

impl DirectLeaves<'_> {
    /// The root with these leaves. Cannot fail (P3).
    pub fn install(&self, root: &Inner, fanout: usize) -> Arc<Inner> {
        let changed =
            edit(root, &self.claim.place, fanout, &mut |node, own| replace(node, own, &self.consumed, &self.leaves));
        changed.unwrap_or_else(|| panic!("P3: the slot of {:?} was changed while it was claimed", self.claim.place))
    }

    pub fn count(&self, core: &Core) {
        core.io.counters.add(Counter::AbsorbedIntoLeaves, self.bytes);
        let waited: u64 = self.consumed.iter().map(|slot| slot.bytes).sum();
        core.io.counters.add(Counter::FlushedBytesToLeaves, self.bytes + waited);
    }
}

/// The slots over leaves that the part's messages are for. `None`: they are too many, one gets too little, or messages wait above one.
fn targets_of(root: &Inner, part: &MemTree, settings: &TreeSettings) -> Option<Vec<Target>> {
    let least = u64::from(settings.leaf_bytes) / LEAF_PART;
    if part.bytes() < least || !part.tombstones().is_empty() {
        return None;
    }
    let mut targets: Vec<Target> = Vec::new();
    let mut cursor = part.cursor();
    cursor.first();
    while let Some(entry) = cursor.entry() {
        let (slot, bounds) = path_to(root, entry.key)?;
        let is_lost = matches!(&slot.child, Child::Leaf(leaf) if leaf.meta.is_elsewhere());
        let may_be_joined = slot.is_void() && bounds != Bounds::all();
        if is_lost || may_be_joined || targets.len() == TARGETS_MAX {
            return None;
        }
        let mut bytes = 0;
        while let Some(entry) = cursor.entry().filter(|entry| bounds.contains(entry.key)) {
            bytes += bytes_of(entry);
            cursor.next();
        }
        if bytes < least {
            return None;
        }
        targets.push(Target { bounds, bytes });
    }
    Some(targets).filter(|targets| !targets.is_empty())
}

fn bytes_of(entry: Entry<'_>) -> u64 {
    (entry.key.len() + entry.value.len() + ENTRY_BYTES) as u64
}

/// The slot over a leaf that is responsible for a key, and its bounds. `None`: messages wait above it (P2), or there are no leaves.
fn path_to<'t>(root: &'t Inner, key: &[u8]) -> Option<(&'t Slot, Bounds)> {
    let (mut node, mut own) = (root, Bounds::all());
    loop {
        let at = node.slot_of(key);
        let slot = node.slots.get(at)?;
        own = node.bounds_of(at, &own);
        match &slot.child {
            Child::Inner(inner) if slot.runs.is_empty() => node = inner,
            Child::Leaf(_) | Child::Empty if node.level == 1 => return Some((slot, own)),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arbor_base::TreeId;
    use arbor_disk::FaultyDisk;
    use arbor_engine::{Batch, Engine, Op, TreeOptions};

    use super::*;
    use crate::flush::leaf::rewrite_leaf;
    use crate::flush::{Flushed, Job};
    use crate::memtable::Memtable;
    use crate::tree::Placed;
    use crate::{Codec, Forest, Kind, Options, Seq};

    const TREE: TreeId = TreeId(1);

    fn forest() -> Forest {
        let mut options = Options::new(Arc::new(FaultyDisk::new()), 64 << 20);
        (options.threads, options.checkpoint_interval_ms, options.memtable_bytes) = (0, 0, 1 << 20);
        options.tree =
            TreeSettings { codec: Codec::None, block_bytes: 512, leaf_bytes: 4 << 10, ..TreeSettings::default() };
        let forest = Forest::open(Path::new("/data"), options).unwrap();
        apply(&forest, vec![Op::CreateTree { tree: TREE, options: TreeOptions::default() }]);
        forest
    }

    fn apply(forest: &Forest, ops: Vec<Op>) {
        forest.apply(&[Batch { position: forest.applied().next(), ops }]).unwrap();
    }

    fn put(number: u32) -> Op {
        Op::Put { tree: TREE, key: number.to_be_bytes().to_vec(), value: vec![number as u8; 100] }
    }

    /// Applies rows, has them absorbed, and returns how many bytes went to leaves and to runs by that.
    fn absorb(forest: &Forest, numbers: impl Iterator<Item = u32>) -> (u64, u64) {
        let core = forest.core();
        let count = |counter| core.io.counters.get(counter);
        let before = (count(Counter::AbsorbedIntoLeaves), count(Counter::RunBytesWritten));
        apply(forest, numbers.map(put).collect());
        core.absorb_all().unwrap();
        forest.validate();
        (count(Counter::AbsorbedIntoLeaves) - before.0, count(Counter::RunBytesWritten) - before.1)
    }

    fn rows(forest: &Forest) -> Vec<u32> {
        let snapshot = forest.snapshot().unwrap();
        let mut cursor = snapshot.cursor(TREE).unwrap();
        let (mut rows, mut more) = (Vec::new(), cursor.first().unwrap());
        while more {
            rows.push(u32::from_be_bytes(cursor.key().try_into().unwrap()));
            more = cursor.next().unwrap();
        }
        rows
    }

    #[test]
    fn ascending_rows_become_leaves_at_once() {
        let forest = forest();
        for round in 0..5 {
            let (leaves, runs) = absorb(&forest, round * 200..(round + 1) * 200);
            assert!(leaves > 200 * 100 && runs == 0, "{leaves} bytes to leaves, {runs} to runs in round {round}");
        }
        let root = forest.core().trees.alive(TREE).unwrap().root();
        let sizes: Vec<u64> = root.slots.iter().map(|slot| super::super::small::bytes_of(slot)).collect();
        assert!(sizes.len() > 20 && sizes.iter().all(|size| (2 << 10..7 << 10).contains(size)), "{sizes:?}");
        assert_eq!(rows(&forest), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn several_writers_that_ascend_go_to_leaves_at_once() {
        let forest = forest();
        let begins = [0u32, 1 << 20, 1 << 24];
        for round in 0..5u32 {
            let of_writer = |begin: u32| begin + round * 100..begin + round * 100 + 100;
            let (leaves, runs) = absorb(&forest, begins.into_iter().flat_map(of_writer));
            assert!(leaves > 3 * 100 * 100 && runs == 0, "{leaves} bytes to leaves, {runs} to runs in round {round}");
        }
        assert_eq!(rows(&forest).len(), 3 * 500);
    }

    #[test]
    fn messages_for_a_leaf_are_taken_along() {
        let forest = forest();
        absorb(&forest, 0..20);
        assert_eq!(absorb(&forest, 20..25).0, 0, "too little");
        let tree = forest.core().trees.alive(TREE).unwrap();
        assert!(tree.root().totals().messages > 0);
        assert!(absorb(&forest, 25..200).0 > 175 * 100);
        assert_eq!(tree.root().totals().messages, 0);
        assert_eq!(rows(&forest), (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn other_parts_wait_above_the_leaves() {
        let forest = forest();
        absorb(&forest, (0..10_000).step_by(2));
        let root = forest.core().trees.alive(TREE).unwrap().root();
        assert!(root.level == 2, "level {}", root.level);
        for (numbers, why) in [
            ((1..10_000).step_by(4).collect::<Vec<u32>>(), "for many leaves"),
            ((10_000..10_200).collect(), "messages wait above the last leaf"),
        ] {
            let (leaves, runs) = absorb(&forest, numbers.into_iter());
            assert!(leaves == 0 && runs > 0, "{why}: {leaves} bytes to leaves, {runs} to runs");
        }
        assert_eq!(rows(&forest).len(), 5000 + 2500 + 200);
    }

    #[test]
    fn a_slot_that_is_worked_on_is_left_alone() {
        let forest = forest();
        absorb(&forest, 0..200);
        let core = forest.core();
        let tree = core.trees.alive(TREE).unwrap();
        let last = path_to(&tree.root(), &[255]).unwrap().1;
        let place = Place { level: 1, bounds: last };
        assert!(core.work.scheduler.claim(&tree, &place));
        assert_eq!(absorb(&forest, 200..400).0, 0);
        core.work.scheduler.release(&tree, &place);
        assert_eq!(rows(&forest), (0..400).collect::<Vec<_>>());
    }

    #[test]
    fn a_slot_that_grew_while_it_waited_is_left_alone() {
        let forest = forest();
        absorb(&forest, 0..60);
        absorb(&forest, 57..60);
        let core = forest.core();
        let tree = core.trees.alive(TREE).unwrap();
        let root = tree.root();
        assert_eq!((root.level, root.slots.len()), (1, 2));
        let waiting = Job::of_slots(&tree, &root, &Bounds::all(), 1..2);
        assert!(core.work.scheduler.claim(&tree, &waiting.place));
        // the first leaf loses its rows, and its slot joins the second one, which begins earlier then
        let second = u32::from_be_bytes(waiting.place.bounds.from.as_slice().try_into().unwrap());
        let delete = |number: u32| Op::Delete { tree: TREE, key: number.to_be_bytes().to_vec() };
        apply(&forest, (0..second).map(delete).collect());
        core.absorb_all().unwrap();
        let first = Job::of_slots(&tree, &tree.root(), &Bounds::all(), 0..1);
        assert!(matches!(rewrite_leaf(core, &first), Ok(Flushed::Done(_))));
        assert_eq!(tree.root().slots.len(), 1);

        assert_eq!(absorb(&forest, 200..400).0, 0, "the slot waits for its job");
        assert!(matches!(rewrite_leaf(core, &waiting), Ok(Flushed::Refused)), "K2: the slot is more than the job has");
        core.work.scheduler.release(&tree, &waiting.place);
        core.plan_again(&waiting);
        core.run_due();
        assert_eq!(tree.root().totals().messages, 0, "a job that has the whole slot follows");
        assert_eq!(rows(&forest), (second..60).chain(200..400).collect::<Vec<_>>());
    }

    #[test]
    fn a_slot_that_a_neighbour_may_take_is_no_target() {
        let memtable = Memtable::new(1 << 20);
        let part = memtable.part(TREE);
        for number in 100..200u64 {
            let key = number.to_be_bytes();
            let entry = Entry { key: &key, seq: Seq(number), kind: Kind::Put, value: &[1; 100] };
            part.insert(entry, crate::filter::hash(&key));
        }
        let settings = TreeSettings { leaf_bytes: 4 << 10, ..TreeSettings::default() };
        let void = |from: &[u8]| Placed { from: from.to_vec(), slot: Arc::new(Slot::void()) };
        let divided = Inner::new(1, vec![void(&[]), void(&[0, 0, 0, 0, 0, 0, 0, 50])]);
        assert_eq!(targets_of(&divided, &part, &settings), None);
        assert_eq!(targets_of(&Inner::empty(), &part, &settings).map(|targets| targets.len()), Some(1));
    }

    #[test]
    fn a_range_delete_waits_above_the_leaves() {
        let forest = forest();
        absorb(&forest, 0..200);
        let delete = Op::DeleteRange { tree: TREE, from: vec![], to: Some(100u32.to_be_bytes().to_vec()) };
        apply(&forest, std::iter::once(delete).chain((200..400).map(put)).collect());
        forest.core().absorb_all().unwrap();
        assert_eq!(rows(&forest), (100..400).collect::<Vec<_>>());
    }
}
