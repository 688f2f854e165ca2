//! First committer wins: which keys were committed after which position.
//!
//! Keys are remembered by a 64-bit hash; two keys of one hash cost a needless retry and nothing else. The keys themselves
//! are kept in the window too, for deleted ranges, which compare them exactly. Entries leave once no active transaction
//! reads at a snapshot before them, or when there are too many: a transaction that stays open for long must not cost the
//! memory of all that is committed meanwhile. Only the holder of the commit lock accesses the table.

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use arbor_base::{Position, TreeId, paranoid};
use arbor_engine::{Batch, Op};
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};

use crate::written::KeyRange;

/// The keys are hashes already.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

pub(crate) type ByHash = BuildHasherDefault<Identity>;

/// The writes of one transaction, as far as conflicts need them.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    /// One per put, update or delete, in the order of the operations.
    pub hashes: Vec<u64>,
    pub ranges: Vec<(TreeId, KeyRange)>,
}

pub(crate) fn hash_of(hasher: &DefaultHashBuilder, tree: TreeId, key: &[u8]) -> u64 {
    hasher.hash_one((tree, key))
}

impl Footprint {
    pub(crate) fn of(hasher: &DefaultHashBuilder, ops: &[Op]) -> Footprint {
        let mut footprint = Footprint { hashes: Vec::with_capacity(ops.len()), ranges: Vec::new() };
        for op in ops {
            match op {
                Op::Put { tree, key, .. } | Op::Update { tree, key, .. } | Op::Delete { tree, key } => {
                    footprint.hashes.push(hash_of(hasher, *tree, key));
                }
                Op::DeleteRange { tree, from, to } => {
                    footprint.ranges.push((*tree, KeyRange { from: from.clone(), to: to.clone() }));
                }
                Op::CreateTree { .. } | Op::DropTree { .. } => {}
            }
        }
        footprint
    }
}

fn key_of(op: &Op) -> Option<(TreeId, &[u8])> {
    match op {
        Op::Put { tree, key, .. } | Op::Update { tree, key, .. } | Op::Delete { tree, key } => Some((*tree, key)),
        _ => None,
    }
}

fn covers(ranges: &[(TreeId, KeyRange)], tree: TreeId, key: &[u8]) -> bool {
    ranges.iter().any(|(of, range)| *of == tree && range.contains(key))
}

struct Committed {
    position: Position,
    footprint: Footprint,
    keys: Vec<(TreeId, Vec<u8>)>,
}

#[derive(Default)]
pub(crate) struct ConflictTable {
    last_write: HashMap<u64, Position, ByHash>,
    window: VecDeque<Committed>,
    /// Commits in the window that deleted a range.
    ranged: usize,
    floor: Position,
    /// Size of the window: a key counts once per commit that wrote it, and every commit counts.
    size: usize,
}

/// Returns what a commit adds to the size of the window.
fn weight(footprint: &Footprint) -> usize {
    footprint.hashes.len() + 1
}

impl ConflictTable {
    /// Returns true if a commit after `snapshot` wrote a key that this transaction writes.
    pub(crate) fn conflicts(&self, snapshot: Position, footprint: &Footprint, ops: &[Op]) -> bool {
        let written_since = |hash: &u64| self.last_write.get(hash).is_some_and(|position| *position > snapshot);
        if footprint.hashes.iter().any(written_since) {
            return true;
        }
        if self.ranged == 0 && footprint.ranges.is_empty() {
            return false;
        }
        self.window.iter().rev().take_while(|commit| commit.position > snapshot).any(|commit| {
            let in_its_ranges =
                |op: &Op| key_of(op).is_some_and(|(tree, key)| covers(&commit.footprint.ranges, tree, key));
            commit.keys.iter().any(|(tree, key)| covers(&footprint.ranges, *tree, key))
                || (!commit.footprint.ranges.is_empty() && ops.iter().any(in_its_ranges))
        })
    }

    /// Returns true if a commit after `snapshot` wrote this key.
    pub(crate) fn conflicts_with_key(&self, snapshot: Position, hash: u64, tree: TreeId, key: &[u8]) -> bool {
        let in_a_range = || {
            let since = self.window.iter().rev().take_while(|commit| commit.position > snapshot);
            since.into_iter().any(|commit| covers(&commit.footprint.ranges, tree, key))
        };
        self.last_write.get(&hash).is_some_and(|position| *position > snapshot) || (self.ranged > 0 && in_a_range())
    }

    /// The position of the last commit after `snapshot` that conflicts; the floor when it may be forgotten.
    pub(crate) fn last_conflict(&self, snapshot: Position, footprint: &Footprint, ops: &[Op]) -> Option<Position> {
        let of_keys = footprint.hashes.iter().filter_map(|hash| self.last_write.get(hash).copied()).max();
        let of_ranges = self.window.iter().rev().take_while(|commit| commit.position > snapshot).find(|commit| {
            let in_its_ranges =
                |op: &Op| key_of(op).is_some_and(|(tree, key)| covers(&commit.footprint.ranges, tree, key));
            commit.keys.iter().any(|(tree, key)| covers(&footprint.ranges, *tree, key)) || ops.iter().any(in_its_ranges)
        });
        of_keys.max(of_ranges.map(|commit| commit.position)).filter(|position| *position > snapshot)
    }

    /// A table that knows nothing of commits up to `floor`.
    pub(crate) fn from(floor: Position) -> ConflictTable {
        ConflictTable { floor, ..ConflictTable::default() }
    }

    /// Requires rising positions.
    pub(crate) fn record(&mut self, batch: Batch, footprint: Footprint) {
        let position = batch.position;
        let before = self.window.back().map_or(self.floor, |last| last.position);
        assert!(before <= position, "{position} is recorded after {before}");
        for hash in &footprint.hashes {
            self.last_write.insert(*hash, position);
        }
        self.ranged += usize::from(!footprint.ranges.is_empty());
        self.size += weight(&footprint);
        let keys = batch.ops.into_iter().filter_map(|op| match op {
            Op::Put { tree, key, .. } | Op::Update { tree, key, .. } | Op::Delete { tree, key } => Some((tree, key)),
            _ => None,
        });
        self.window.push_back(Committed { position, footprint, keys: keys.collect() });
    }

    /// Forgets what only transactions with a snapshot before `oldest` could conflict with.
    pub(crate) fn prune(&mut self, oldest: Position) {
        while self.window.front().is_some_and(|commit| commit.position <= oldest) {
            self.forget_first();
        }
        debug_assert!(!self.window.is_empty() || self.is_clear(), "an empty window remembers no key");
    }

    /// Forgets the older part of a table that is larger than `size_max`, even if it is still needed: transactions that read
    /// before [`ConflictTable::floor`] have to find out in another way what changed up to there.
    /// Commits after `published` are never forgotten: no snapshot shows them yet, and every transaction would conflict.
    pub(crate) fn bound(&mut self, size_max: usize, published: Position) {
        if self.size <= size_max {
            return;
        }
        while self.size > size_max / 2 && self.window.front().is_some_and(|commit| commit.position <= published) {
            let Some(position) = self.forget_first() else { break };
            debug_assert!(self.floor <= position, "the floor goes back from {} to {position}", self.floor);
            self.floor = position;
        }
    }

    /// Commits up to here may be forgotten.
    pub(crate) fn floor(&self) -> Position {
        self.floor
    }

    /// Nothing is counted.
    fn is_clear(&self) -> bool {
        self.size == 0 && self.ranged == 0 && self.last_write.is_empty()
    }

    fn forget_first(&mut self) -> Option<Position> {
        let commit = self.window.pop_front()?;
        self.ranged -= usize::from(!commit.footprint.ranges.is_empty());
        self.size -= weight(&commit.footprint);
        for hash in &commit.footprint.hashes {
            if self.last_write.get(hash) == Some(&commit.position) {
                self.last_write.remove(hash);
            }
        }
        Some(commit.position)
    }

    /// Number of remembered keys and commits: what the memory grows with, also when all commits write one key.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

/// The writes of the transactions admitted to the group so far: every overlap inside a group is a conflict, since no
/// member's snapshot shows another member.
#[derive(Default)]
pub(crate) struct GroupFootprint {
    hashes: HashSet<u64, ByHash>,
    ranges: Vec<(TreeId, KeyRange)>,
}

impl GroupFootprint {
    pub(crate) fn conflicts(&self, footprint: &Footprint, ops: &[Op], admitted: &[Batch]) -> bool {
        let keys_of =
            |batch: &Batch| batch.ops.iter().filter_map(key_of).any(|(tree, key)| covers(&footprint.ranges, tree, key));
        footprint.hashes.iter().any(|hash| self.hashes.contains(hash))
            || (!footprint.ranges.is_empty() && admitted.iter().any(keys_of))
            || (!self.ranges.is_empty()
                && ops.iter().filter_map(key_of).any(|(tree, key)| covers(&self.ranges, tree, key)))
    }

    pub(crate) fn admit(&mut self, footprint: &Footprint) {
        paranoid!(
            footprint.hashes.iter().all(|hash| !self.hashes.contains(hash)),
            "two members of a group write one key"
        );
        self.hashes.extend(&footprint.hashes);
        self.ranges.extend_from_slice(&footprint.ranges);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: TreeId = TreeId(9);

    struct Table {
        hasher: DefaultHashBuilder,
        table: ConflictTable,
    }

    impl Table {
        fn new() -> Table {
            Table { hasher: DefaultHashBuilder::default(), table: ConflictTable::default() }
        }

        fn commit(&mut self, position: u64, ops: Vec<Op>) {
            let footprint = Footprint::of(&self.hasher, &ops);
            self.table.record(Batch { position: Position(position), ops }, footprint);
        }

        fn conflicts(&self, snapshot: u64, ops: Vec<Op>) -> bool {
            self.table.conflicts(Position(snapshot), &Footprint::of(&self.hasher, &ops), &ops)
        }

        fn conflicts_with(&self, snapshot: u64, key: &str) -> bool {
            let hash = hash_of(&self.hasher, TREE, key.as_bytes());
            self.table.conflicts_with_key(Position(snapshot), hash, TREE, key.as_bytes())
        }
    }

    fn put(key: &str) -> Vec<Op> {
        vec![Op::Put { tree: TREE, key: key.into(), value: Vec::new() }]
    }

    fn range(from: &str) -> Vec<Op> {
        vec![Op::DeleteRange { tree: TREE, from: from.into(), to: None }]
    }

    #[test]
    fn only_commits_after_the_snapshot_conflict() {
        let mut table = Table::new();
        table.commit(5, put("a"));
        assert!(table.conflicts(4, put("a")));
        assert!(!table.conflicts(5, put("a")));
        assert!(!table.conflicts(4, put("b")));
        let elsewhere = vec![Op::Delete { tree: TreeId(8), key: "a".into() }];
        assert!(!table.conflicts(4, elsewhere));
    }

    #[test]
    fn pruning_keeps_what_an_open_snapshot_may_conflict_with() {
        let mut table = Table::new();
        table.commit(1, put("a"));
        table.commit(2, range("x"));
        table.commit(5, put("a"));
        table.commit(6, range("m"));
        table.table.prune(Position(3));
        assert!(table.conflicts(3, put("a")) && table.conflicts(4, put("a")));
        assert!(table.conflicts(3, put("n")) && table.conflicts(3, range("a")));
        assert!(table.conflicts_with(3, "a") && table.conflicts_with(3, "n"));
        assert!(!table.conflicts_with(3, "b") && !table.conflicts_with(6, "n"));
        assert!(!table.conflicts(6, put("n")) && !table.conflicts(5, range("a")));
        table.table.prune(Position(6));
        assert_eq!(table.table.size(), 0);
        assert!(!table.conflicts(3, put("n")));
    }

    /// A counter that is raised again and again must not look like a table of one key.
    #[test]
    fn commits_of_one_key_count_each() {
        let mut table = Table::new();
        (1..=100).for_each(|position| table.commit(position, put("a")));
        table.commit(101, range("x"));
        assert!(table.table.size() >= 101);
        table.table.prune(Position(100));
        assert!(table.table.size() <= 2 && table.table.last_write.is_empty());
    }

    #[test]
    fn a_bounded_table_says_what_it_forgot() {
        let mut table = Table::new();
        (1..=100).for_each(|position| table.commit(position, put("a")));
        table.table.bound(200, Position(100));
        table.table.bound(100, Position::ZERO);
        assert_eq!(table.table.floor(), Position::ZERO);
        table.table.bound(100, Position(100));
        assert_eq!((table.table.floor(), table.table.size()), (Position(75), 50));
        assert!(table.conflicts(75, put("a")) && !table.conflicts(100, put("a")));
    }

    #[test]
    fn members_of_one_group_conflict_whatever_their_snapshots() {
        let hasher = DefaultHashBuilder::default();
        let of = |ops: &[Op]| Footprint::of(&hasher, ops);
        let mut group = GroupFootprint::default();
        let admitted =
            [Batch { position: Position(7), ops: put("a") }, Batch { position: Position(8), ops: range("m") }];
        admitted.iter().for_each(|batch| group.admit(&of(&batch.ops)));
        let conflicts = |ops: Vec<Op>| group.conflicts(&of(&ops), &ops, &admitted);
        assert!(conflicts(put("a")) && conflicts(put("n")) && conflicts(range("a")));
        assert!(!conflicts(put("b")) && !conflicts(range("b")));
    }
}
