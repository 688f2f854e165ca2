//! A group of commits: the requests, which of them are admitted, and the state against which they are checked.

use std::collections::HashSet;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::{Batch, CheckedTrees, Engine, Op, check_row};
use hashbrown::{DefaultHashBuilder, HashMap};

use crate::applier::Applier;
use crate::commit_rule::{CommitRule, Term};
use crate::conflict::{ConflictTable, Footprint, GroupFootprint};
use crate::fetch::marker::Syncing;
use crate::in_flight::InFlight;
use crate::ledger::{self, CounterId, LEDGER};
use crate::prepared::table::{PREPARED, PreparedTable, Special};
use crate::write_set::Changes;
use crate::written::CounterChange;
use crate::{Error, Result, Stamp};
use crate::{packed, record};

/// Remembered keys at which the leader looks for the oldest active transaction and forgets.
pub(crate) const PRUNE_AT: usize = 4096;

/// The leader of the set.
pub(crate) enum Lead {
    /// This member.
    Own(Arc<Term>),
    /// This member, once the record at `noop` is applied.
    Begins { term: Arc<Term>, noop: Position, applier: Applier },
    /// Another one, or none.
    Other(Applier),
}

/// State behind the commit lock.
pub(crate) struct Committed {
    pub conflicts: ConflictTable,
    pub counters: HashMap<CounterId, i64>,
    pub trees: HashSet<TreeId>,
    pub next_tree: u64,
    /// In the log, not yet in the engine.
    pub in_flight: InFlight,
    pub rule: CommitRule,
    /// The last position that the set has. Without meaning under [`CommitRule::Own`].
    pub commit_point: Position,
    pub lead: Lead,
    /// An initial sync has begun and not ended: nothing is applied.
    pub syncing: Syncing,
    /// One thread keeps the other committers out.
    pub exclusive: bool,
    /// The leader hands over: no further commits are admitted.
    pub paused: bool,
    /// While another member leads: the last position up to which its log and the own one are known to be equal.
    pub matched: Position,
    /// Time of the last note that the engine has, while something is in flight.
    pub applied_time: u64,
    pub prune_at: usize,
    /// Time of the last note that was committed.
    pub last_time: u64,
}

impl Committed {
    pub(crate) fn new(counters: HashMap<CounterId, i64>, trees: HashSet<TreeId>, next_tree: u64) -> Committed {
        Committed {
            conflicts: ConflictTable::default(),
            counters,
            trees,
            next_tree,
            in_flight: InFlight::default(),
            rule: CommitRule::Own,
            commit_point: Position::ZERO,
            lead: Lead::Own(Arc::default()),
            syncing: Syncing::No,
            exclusive: false,
            paused: false,
            matched: Position::ZERO,
            applied_time: 0,
            prune_at: PRUNE_AT,
            last_time: 0,
        }
    }

    /// The present term of this member, if it leads.
    pub(crate) fn term(&self) -> Option<&Arc<Term>> {
        match &self.lead {
            Lead::Own(term) => Some(term),
            Lead::Begins { .. } | Lead::Other(_) => None,
        }
    }

    pub(crate) fn require_leading(&self) -> Result<()> {
        self.term().filter(|_| !self.paused).map(drop).ok_or(Error::NotLeading)
    }

    /// Takes over what a group has changed. Its batches and footprints stay in the draft.
    pub(crate) fn absorb(&mut self, draft: &mut Draft) {
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
    /// Trees that the record says are loaded.
    pub loaded: Vec<TreeId>,
    pub footprint: Footprint,
    pub special: Special,
}

impl Request {
    /// `bytes` is about what the record takes, and not less. Errors: rows and tree options that the engine would refuse.
    pub(crate) fn new(
        engine: &dyn Engine,
        changes: Changes,
        snapshot: Position,
        hasher: &DefaultHashBuilder,
        bytes: usize,
        chained: bool,
    ) -> Result<Request> {
        let Changes { ops, counters, logical, places, notes, loads } = changes;
        check_ops(engine, &ops)?;
        let mut record = record::begin(&logical, &places, &notes, if chained { 0 } else { bytes + 64 });
        assert!(!chained || loads.is_empty(), "loads are referred to by a record of their own");
        loads.iter().for_each(|load| record::push_load(&mut record, load));
        if !chained {
            ops.iter().for_each(|op| record::push_op(&mut record, op));
        }
        let loaded = loads.iter().map(|load| load.tree).collect();
        let footprint = Footprint::of(hasher, &ops);
        let special = Special::None;
        Ok(Request { snapshot, ops, counters, record, chained, notes: notes.len(), loaded, footprint, special })
    }

    /// Compresses the record, if that makes it shorter. Chains and records that refer to loads are not compressed.
    pub(crate) fn compress(&mut self) {
        if !self.chained && self.loaded.is_empty() {
            self.record = packed::pack(std::mem::take(&mut self.record), self.notes);
        }
    }

    /// Returns the bytes that it counts in its group.
    pub(crate) fn weight(&self) -> usize {
        if self.chained || !matches!(self.special, Special::None) { usize::MAX } else { self.record.len() }
    }

    pub(crate) fn puts_anything(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Put { .. } | Op::Update { .. }))
    }
}

/// Rejects operations that the engine would refuse: they must not reach the log.
pub(crate) fn check_ops(engine: &dyn Engine, ops: &[Op]) -> Result<()> {
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
    /// The one request that is more than its operations, with its stamp.
    pub special: Option<(Special, u64)>,
}

impl Draft {
    pub(crate) fn new(committed: &Committed) -> Draft {
        Draft { next_tree: committed.next_tree, ..Draft::default() }
    }

    /// First committer wins; every written tree exists.
    pub(crate) fn check(&self, committed: &Committed, request: &Request, prepared: &PreparedTable) -> Result<()> {
        self.check_trees(committed, &request.ops, &request.loaded)?;
        let is_locked = match &request.special {
            Special::None => prepared.has_any(&request.footprint, &request.ops),
            Special::Decide(..) => {
                self.check_trees(committed, &[], &[PREPARED])?;
                prepared.has_any(&request.footprint, &request.ops)
            }
            Special::Settle(settling) if prepared.has(&settling.id) => false,
            Special::Settle(_) => return Err(Error::NotPrepared),
            Special::Prepare(preparing) => {
                let (footprint, ops) = (&preparing.footprint, &preparing.ops);
                self.check_trees(committed, ops, &[])?;
                prepared.has(&preparing.id)
                    || prepared.has_any(footprint, ops)
                    || committed.conflicts.conflicts(request.snapshot, footprint, ops)
                    || self.footprint.conflicts(footprint, ops, &self.batches)
            }
        };
        let conflicts = is_locked
            || request.snapshot < committed.conflicts.floor()
            || committed.conflicts.conflicts(request.snapshot, &request.footprint, &request.ops)
            || self.footprint.conflicts(&request.footprint, &request.ops, &self.batches);
        if conflicts { Err(Error::Conflict) } else { Ok(()) }
    }

    fn check_trees(&self, committed: &Committed, ops: &[Op], loaded: &[TreeId]) -> Result<()> {
        let exists = |tree: TreeId| {
            let exists = committed.trees.contains(&tree) && !self.dropped.contains(&tree);
            if exists || tree == LEDGER { Ok(()) } else { Err(Error::UnknownTree(tree)) }
        };
        let mut trees = CheckedTrees::default();
        ops.iter().try_for_each(|op| trees.check(op, exists))?;
        loaded.iter().try_for_each(|tree| exists(*tree))
    }

    /// Completes the request with what only the leader knows and adds it to the group. `alone`: it is the only request of its group.
    pub(crate) fn add(
        &mut self,
        committed: &Committed,
        request: Request,
        position: Position,
        stamp: Stamp,
        alone: bool,
    ) {
        let Request { mut ops, counters, mut record, footprint, chained, notes, special, .. } = request;
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
        if let Special::Decide(key, about) = &special {
            let value = stamp.time.to_le_bytes().iter().chain(about).copied().collect();
            ops.push(Op::Put { tree: PREPARED, key: key.clone(), value });
        }
        if !matches!(special, Special::None) {
            assert!(self.special.is_none(), "such a request is alone in its group");
            self.special = Some((special, stamp.time));
        }
        let mut newest = 0;
        for op in &ops {
            match op {
                Op::CreateTree { tree, .. } => {
                    self.created.push(*tree);
                    newest = newest.max(tree.0 + 1);
                }
                Op::DropTree { tree } => self.dropped.push(*tree),
                _ => {}
            }
        }
        if newest > self.next_tree {
            self.next_tree = newest;
            ops.push(ledger::put_next_tree(newest));
        }
        if !chained {
            ops.iter().skip(own_ops).for_each(|op| record::push_op(&mut record, op));
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
