//! Transactions that are prepared here: the owners of keys, and the commits whose records have later stamps (see `prepared/mod.rs`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId, sometimes};
use arbor_engine::Op;
use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};

use crate::conflict::{ByHash, Footprint};
use crate::ledger::CounterId;

/// The tree of prepared transactions and of decisions, one of the fixed trees.
pub(crate) const PREPARED: TreeId = TreeId(6);

pub(super) const PREPARED_PREFIX: u8 = b'p';
pub(super) const DECISION_PREFIX: u8 = b'd';

/// Longest wait of a reader, or of a commit that hits a prepared key, for a decision.
pub(super) const DECISION_PATIENCE: Duration = Duration::from_secs(30);

/// Names a transaction on all servers that take part in it: its session and its number, for the layers above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub [u8; TransactionId::BYTES]);

impl TransactionId {
    pub const BYTES: usize = 56;

    pub(super) fn key(&self, prefix: u8) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + Self::BYTES + 4);
        key.push(prefix);
        key.extend(self.0);
        key
    }

    pub(super) fn row(&self, piece: u32) -> Vec<u8> {
        let mut key = self.key(PREPARED_PREFIX);
        key.extend(piece.to_be_bytes());
        key
    }

    /// Returns the id in a key, and what follows it.
    pub(super) fn of_key(prefix: u8, key: &[u8]) -> Option<(TransactionId, &[u8])> {
        let (id, rest) = key.strip_prefix(&[prefix])?.split_first_chunk()?;
        Some((TransactionId(*id), rest))
    }
}

/// A prepared transaction without a decision.
#[derive(Clone, Debug)]
pub struct PreparedInfo {
    pub id: TransactionId,
    /// Description given when it was prepared.
    pub about: Vec<u8>,
    /// Since it was prepared, or this server began to lead.
    pub age: Duration,
    /// Trees that it writes to.
    pub trees: Vec<TreeId>,
}

/// The part of a request that is more than its operations.
#[derive(Default)]
pub(crate) enum Special {
    #[default]
    None,
    Prepare(Box<Preparing>),
    Settle(Box<Settling>),
    /// Puts a decision with the stamp of the record: its key, and what follows the time.
    Decide(Vec<u8>, Vec<u8>),
}

pub(crate) struct Preparing {
    pub id: TransactionId,
    pub about: Vec<u8>,
    pub footprint: Footprint,
    pub ops: Vec<Op>,
}

pub(crate) struct Settling {
    pub id: TransactionId,
    /// `None`: an abort.
    pub commit_time: Option<u64>,
    pub counters: Vec<(CounterId, i64)>,
}

/// Transactions that are prepared here. Changed with the commit lock held.
#[derive(Default)]
pub(crate) struct PreparedTable {
    /// Number of open ones.
    count: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
    /// The log durably has a record of this time or a later one.
    pub(super) sealed: AtomicU64,
}

#[derive(Default)]
struct State {
    open: HashMap<TransactionId, Open>,
    /// The owners of keys.
    keys: HashMap<u64, TransactionId, ByHash>,
    late: VecDeque<Late>,
    waiting: Vec<(u64, PendingLock)>,
    next_waiting: u64,
}

/// A commit that waits for a key of a prepared transaction.
#[derive(Clone, Debug)]
pub struct PendingLock {
    pub owner: TransactionId,
    pub waiting_for: Duration,
    /// Trees that the owner writes to.
    pub trees: Vec<TreeId>,
    since: Instant,
}

struct Open {
    about: Vec<u8>,
    /// Zero: it is not known any more.
    time: u64,
    since: Instant,
    footprint: Footprint,
    trees: Vec<TreeId>,
}

/// A commit whose record came after its commit time.
#[derive(Clone)]
pub(super) struct Late {
    commit_time: u64,
    stamp: u64,
    pub position: Position,
    pub counters: Vec<(CounterId, i64)>,
    since: Instant,
}

impl PreparedTable {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns true if a prepared transaction has one of these keys (P1).
    pub(crate) fn has_any(&self, footprint: &Footprint, ops: &[Op]) -> bool {
        self.owner_of(footprint, ops).is_some()
    }

    pub(super) fn owner_of(&self, footprint: &Footprint, ops: &[Op]) -> Option<TransactionId> {
        if self.is_empty() {
            return None;
        }
        let state = self.state.lock();
        let of_key = footprint.hashes.iter().find_map(|hash| state.keys.get(hash)).copied();
        let covers = |open: &Open| {
            // which keys are not kept: a deleted range conflicts with all of a tree
            footprint.ranges.iter().any(|(tree, _)| open.trees.contains(tree))
                || open.footprint.ranges.iter().any(|(tree, _)| ops.iter().any(|op| op.tree() == *tree))
        };
        of_key.or_else(|| state.open.iter().find(|(_, open)| covers(open)).map(|(id, _)| *id))
    }

    pub(crate) fn has_key(&self, hash: u64) -> bool {
        !self.is_empty() && self.state.lock().keys.contains_key(&hash)
    }

    pub(crate) fn has(&self, id: &TransactionId) -> bool {
        !self.is_empty() && self.state.lock().open.contains_key(id)
    }

    /// A request was appended with this stamp.
    pub(crate) fn appended(&self, special: Special, stamp: u64, position: Position, window: Duration) {
        match special {
            Special::None | Special::Decide(..) => {}
            Special::Prepare(preparing) => {
                let Preparing { id, about, footprint, ops } = *preparing;
                self.add(id, about, stamp, footprint, &ops);
            }
            Special::Settle(settling) => {
                let Settling { id, commit_time, counters } = *settling;
                let mut state = self.state.lock();
                let Some(open) = state.open.remove(&id) else { unreachable!("it was checked to be prepared") };
                assert!(open.time < stamp, "a transaction ends at {stamp} and was prepared at {}", open.time);
                for hash in &open.footprint.hashes {
                    let owner = state.keys.remove(hash);
                    assert!(owner == Some(id), "P1: a key of two prepared transactions");
                }
                if let Some(commit_time) = commit_time {
                    assert!(commit_time < stamp, "P2: the record has a stamp after the commit time");
                    while state.late.front().is_some_and(|first| first.since.elapsed() > window + DECISION_PATIENCE) {
                        state.late.pop_front();
                    }
                    let before = state.late.back().map_or((0, Position::ZERO), |last| (last.stamp, last.position));
                    assert!(before.0 < stamp && before.1 < position, "late commits come in the order of the log");
                    state.late.push_back(Late { commit_time, stamp, position, counters, since: Instant::now() });
                }
                self.count.store(state.open.len(), Ordering::Release);
                drop(state);
                self.changed.notify_all();
            }
        }
    }

    pub(super) fn add(&self, id: TransactionId, about: Vec<u8>, time: u64, mut footprint: Footprint, ops: &[Op]) {
        let mut state = self.state.lock();
        footprint.hashes.sort_unstable();
        footprint.hashes.dedup();
        for hash in &footprint.hashes {
            let before = state.keys.insert(*hash, id);
            assert!(before.is_none(), "P1: a key of two prepared transactions");
        }
        let mut trees: Vec<TreeId> = ops.iter().map(Op::tree).collect();
        trees.sort_unstable();
        trees.dedup();
        let before = state.open.insert(id, Open { about, time, since: Instant::now(), footprint, trees });
        assert!(before.is_none(), "a transaction is prepared once");
        self.count.store(state.open.len(), Ordering::Release);
    }

    /// Returns the transactions without a decision.
    pub(super) fn infos(&self) -> Vec<PreparedInfo> {
        let state = self.state.lock();
        let info = |(id, open): (&TransactionId, &Open)| PreparedInfo {
            id: *id,
            about: open.about.clone(),
            age: open.since.elapsed(),
            trees: open.trees.clone(),
        };
        state.open.iter().map(info).collect()
    }

    /// Forgets everything: another member leads, or this one begins to.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        (state.open, state.keys, state.late) = Default::default();
        drop(state);
        self.count.store(0, Ordering::Release);
        self.changed.notify_all();
    }

    /// Checks that each key has the owner that has it (P1), and that late commits are in the order of the log.
    pub(crate) fn validate(&self) {
        let state = self.state.lock();
        assert_eq!(self.count.load(Ordering::Acquire), state.open.len(), "prepared transactions are counted");
        let owned = |(id, open): (&TransactionId, &Open)| {
            open.footprint.hashes.iter().all(|key| state.keys.get(key) == Some(id))
        };
        assert!(state.open.iter().all(owned), "P1: a prepared transaction does not own one of its keys");
        let keys: usize = state.open.values().map(|open| open.footprint.hashes.len()).sum();
        assert_eq!(state.keys.len(), keys, "P1: a key is owned and its transaction has ended");
        assert!(state.late.iter().is_sorted_by(|one, next| one.position < next.position), "late commits are in order");
    }

    /// Waits until the transaction has ended here. Returns false at the deadline.
    pub(super) fn wait_ended(&self, id: TransactionId, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        let Some(open) = state.open.get(&id) else { return true };
        let pending =
            PendingLock { owner: id, waiting_for: Duration::ZERO, trees: open.trees.clone(), since: Instant::now() };
        let ticket = state.next_waiting;
        state.next_waiting += 1;
        state.waiting.push((ticket, pending));
        while state.open.contains_key(&id) {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.waiting.retain(|(own, _)| *own != ticket);
        !state.open.contains_key(&id)
    }

    /// Returns the commits that wait now.
    pub(super) fn pending_locks(&self) -> Vec<PendingLock> {
        let state = self.state.lock();
        let now = |(_, own): &(u64, PendingLock)| PendingLock { waiting_for: own.since.elapsed(), ..own.clone() };
        state.waiting.iter().map(now).collect()
    }

    /// Waits until nothing is prepared that may have a commit time up to `time`.
    pub(super) fn wait_decided(&self, time: u64, deadline: Instant) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut state = self.state.lock();
        let waits = |state: &State| state.open.values().any(|open| open.time <= time);
        while waits(&state) {
            sometimes!("txn: a reader waits for a decision");
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return !waits(&state);
            }
        }
        true
    }

    /// The commits that a state at `time` shows and the records up to that time do not.
    pub(super) fn late_at(&self, time: u64) -> Vec<Late> {
        let state = self.state.lock();
        state.late.iter().filter(|late| late.commit_time <= time && time < late.stamp).cloned().collect()
    }
}
