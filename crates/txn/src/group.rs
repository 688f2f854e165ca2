//! A group of commits: the requests, which of them are admitted, and the state against which they are checked.

use std::collections::HashSet;

use arbor_base::{Position, TreeId};
use arbor_engine::{Batch, CheckedTrees, Engine, Op, check_row};
use hashbrown::{DefaultHashBuilder, HashMap};

use crate::conflict::{ConflictTable, Footprint, GroupFootprint};
use crate::ledger::{self, CounterId, LEDGER};
use crate::record;
use crate::write_set::Changes;
use crate::written::CounterChange;
use crate::{Error, Result, Stamp};

/// Remembered keys at which the leader looks for the oldest active transaction and forgets.
pub(crate) const PRUNE_AT: usize = 4096;

/// State behind the commit lock.
pub(crate) struct Committed {
    pub conflicts: ConflictTable,
    pub counters: HashMap<CounterId, i64>,
    pub trees: HashSet<TreeId>,
    pub next_tree: u64,
    /// In the log, not yet in the engine, which had no space.
    pub pending: Vec<Batch>,
    pub prune_at: usize,
    /// Time of the last note that was committed.
    pub last_time: u64,
}

impl Committed {
    pub fn new(counters: HashMap<CounterId, i64>, trees: HashSet<TreeId>, next_tree: u64) -> Committed {
        let conflicts = ConflictTable::default();
        Committed { conflicts, counters, trees, next_tree, pending: Vec::new(), prune_at: PRUNE_AT, last_time: 0 }
    }

    /// Takes over what a group has changed. Its batches and footprints stay in the draft.
    pub fn absorb(&mut self, draft: &mut Draft) {
        assert!(draft.next_tree >= self.next_tree, "tree ids are never used again");
        assert!(draft.last_time > self.last_time, "times ascend with positions");
        for (id, value) in draft.counters.drain() {
            match value {
                Some(value) => self.counters.insert(id, value),
                None => self.counters.remove(&id),
            };
        }
        self.trees.extend(draft.created.drain(..));
        for tree in draft.dropped.drain(..) {
            self.trees.remove(&tree);
        }
        self.next_tree = draft.next_tree;
        self.last_time = draft.last_time;
    }
}

/// One transaction on its way through the queue.
pub(crate) struct Request {
    pub snapshot: Position,
    pub ops: Vec<Op>,
    pub counters: Vec<(CounterId, CounterChange)>,
    /// The record without the leader's own operations (counters, next tree id); of a chain it has no operations at all.
    pub record: Vec<u8>,
    /// The record is too long to be one; such a request is alone in its group.
    pub chained: bool,
    pub notes: usize,
    pub footprint: Footprint,
}

impl Request {
    /// `bytes` is about what the record takes, and not less. Errors: rows and tree options that the engine would refuse.
    pub fn new(
        engine: &dyn Engine,
        changes: Changes,
        snapshot: Position,
        hasher: &DefaultHashBuilder,
        bytes: usize,
        chained: bool,
    ) -> Result<Request> {
        let Changes { ops, counters, logical, places, notes } = changes;
        check_ops(engine, &ops)?;
        let mut record = record::begin(&logical, &places, &notes, if chained { 0 } else { bytes + 64 });
        if !chained {
            ops.iter().for_each(|op| record::push_op(&mut record, op));
        }
        let footprint = Footprint::of(hasher, &ops);
        Ok(Request { snapshot, ops, counters, record, chained, notes: notes.len(), footprint })
    }

    /// Returns the bytes that it counts in its group.
    pub fn weight(&self) -> usize {
        if self.chained { usize::MAX } else { self.record.len() }
    }

    pub fn puts_anything(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Put { .. } | Op::Update { .. }))
    }
}

/// Rejects operations that the engine would refuse: they must not reach the log.
fn check_ops(engine: &dyn Engine, ops: &[Op]) -> Result<()> {
    let mut trees = CheckedTrees::default();
    for op in ops {
        // Whether it exists is for the leader to say, who knows what was committed before.
        trees.check(op, |tree| if tree == LEDGER { Ok(()) } else { engine.check_tree(tree) })?;
        check_row(op, || match engine.capabilities().update_messages {
            true => Ok(()),
            false => Err(arbor_engine::Error::no_updates(engine.name())),
        })?;
        if let Op::CreateTree { options, .. } = op {
            engine.check_options(options)?;
        }
    }
    Ok(())
}

/// Results of admitted requests, merged into [`Committed`] once the log has them.
#[derive(Default)]
pub(crate) struct Draft {
    footprint: GroupFootprint,
    /// `None`: dropped.
    pub counters: HashMap<CounterId, Option<i64>>,
    pub created: Vec<TreeId>,
    pub dropped: Vec<TreeId>,
    pub next_tree: u64,
    pub batches: Vec<Batch>,
    pub records: Vec<Vec<u8>>,
    /// The one record is to be written as a chain, with this stamp.
    pub chain: Option<Stamp>,
    /// Time of the last note.
    pub last_time: u64,
    pub footprints: Vec<Footprint>,
}

impl Draft {
    pub fn new(committed: &Committed) -> Draft {
        Draft { next_tree: committed.next_tree, ..Draft::default() }
    }

    /// First committer wins; every written tree exists.
    pub fn check(&self, committed: &Committed, request: &Request) -> Result<()> {
        self.check_trees(committed, &request.ops)?;
        let conflicts = request.snapshot < committed.conflicts.floor()
            || committed.conflicts.conflicts(request.snapshot, &request.footprint, &request.ops)
            || self.footprint.conflicts(&request.footprint, &request.ops, &self.batches);
        if conflicts { Err(Error::Conflict) } else { Ok(()) }
    }

    fn check_trees(&self, committed: &Committed, ops: &[Op]) -> Result<()> {
        let exists = |tree: TreeId| {
            let exists = committed.trees.contains(&tree) && !self.dropped.contains(&tree);
            if exists || tree == LEDGER { Ok(()) } else { Err(Error::UnknownTree(tree)) }
        };
        let mut trees = CheckedTrees::default();
        ops.iter().try_for_each(|op| trees.check(op, exists))
    }

    /// Completes the request with what only the leader knows and adds it to the group. `alone`: it is the only request of its group.
    pub fn add(&mut self, committed: &Committed, request: Request, position: Position, stamp: Stamp, alone: bool) {
        let Request { mut ops, counters, mut record, footprint, chained, notes, .. } = request;
        assert!(!chained || (alone && self.batches.is_empty()), "a chain is alone in its group");
        let previous = self.batches.last().map(|last| last.position);
        assert!(previous.is_none_or(|previous| previous.next() == position), "I2: {position} follows {previous:?}");
        assert!(stamp.time > self.last_time, "times ascend within a group");
        record::stamp(&mut record, stamp);
        self.chain = chained.then_some(stamp);
        self.last_time = record::last_time(stamp, notes as u64);
        let own_ops = ops.len();
        for (id, change) in counters {
            let before = self.counters.get(&id).copied().unwrap_or_else(|| committed.counters.get(&id).copied());
            let after = match change {
                CounterChange::Add(delta) => Some(before.unwrap_or(0).wrapping_add(delta)),
                CounterChange::Drop => None,
            };
            self.counters.insert(id, after);
            ops.push(after.map_or_else(|| ledger::delete_counter(id), |value| ledger::put_counter(id, value)));
        }
        let trees_before = self.created.len();
        for op in &ops {
            match op {
                Op::CreateTree { tree, .. } => self.created.push(*tree),
                Op::DropTree { tree } => self.dropped.push(*tree),
                _ => {}
            }
        }
        let newest = self.created[trees_before..].iter().map(|tree| tree.0 + 1).max().unwrap_or(0);
        if newest > self.next_tree {
            self.next_tree = newest;
            ops.push(ledger::put_next_tree(newest));
        }
        if !chained {
            ops[own_ops..].iter().for_each(|op| record::push_op(&mut record, op));
        }
        if !alone {
            self.footprint.admit(&footprint);
        }
        self.batches.push(Batch { position, ops });
        self.records.push(record);
        self.footprints.push(footprint);
        debug_assert_eq!(self.batches.len(), self.records.len(), "a record for each batch");
        debug_assert_eq!(self.batches.len(), self.footprints.len(), "a footprint for each batch");
    }
}
