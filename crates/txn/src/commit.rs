//! The commit path: conflict check, append, apply, publish. The only caller of `log.append` and `engine.apply`.
//!
//! A group's leader holds the commit lock from the conflict check to the publication; the wait for the fsync comes after
//! it, by each committer for itself.
//!
//! What a failure leaves:
//!
//! | step | what fails | the group | afterwards |
//! |---|---|---|---|
//! | append | no space | refused, nothing written | writes go on when there is space |
//! | append | anything else | refused | poisoned (the log says so itself) |
//! | apply | no space | **in the log, so it will happen**: its committers wait up to `apply_wait`, then get `CommittedNotApplied` | the batches stay pending and are applied before anything else; new writes are refused with `OutOfSpace` until then; reads go on |
//! | apply | error or panic | `Poisoned`, outcome open until the next start | writes are refused, reads go on |
//! | fsync | error | `Poisoned`, visible, durability open | the log refuses every later append |
//!
//! So that the third row is rare, writes are refused before the append while the device has less than
//! `space_reserve_bytes` free; transactions that only delete are let through, since they make space.
//!
//! Lock order: commit lock, then a shard of the active transactions.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId};
use arbor_engine::{Batch, Engine, Op, limits};
use arbor_log::Log;
use hashbrown::{DefaultHashBuilder, HashMap};

use crate::active::{ActiveTransactions, Ticket};
use crate::conflict::{ConflictTable, Footprint, GroupFootprint};
use crate::ledger::{self, CounterId, LEDGER};
use crate::queue::Queue;
use crate::record;
use crate::write_set::{Changes, CounterChange, WriteSet};
use crate::{Durability, Error, Options, Result};

/// Remembered keys at which the leader looks for the oldest active transaction and forgets.
const PRUNE_AT_KEYS: usize = 4096;
/// How often a waiting committer tries to apply pending batches again.
const APPLY_RETRY: Duration = Duration::from_millis(100);

pub(crate) struct CommitPath {
    engine: Arc<dyn Engine>,
    log: Arc<Log>,
    options: Options,
    active: Arc<ActiveTransactions>,
    hasher: DefaultHashBuilder,
    queue: Queue<Request, Outcome>,
    committed: Mutex<Committed>,
    /// Signalled when pending batches are applied.
    applied: Condvar,
    applied_lock: Mutex<()>,
    /// Position that new snapshots show at least.
    published: AtomicU64,
    next_tree: AtomicU64,
    log_bytes: AtomicU64,
    low_space: AtomicBool,
    closed: AtomicBool,
    poison: OnceLock<String>,
}

/// State behind the commit lock.
pub(crate) struct Committed {
    conflicts: ConflictTable,
    pub counters: HashMap<CounterId, i64>,
    pub trees: HashSet<TreeId>,
    pub next_tree: u64,
    /// In the log, not yet in the engine, which had no space.
    pending: Vec<Batch>,
    prune_at_keys: usize,
}

impl Committed {
    pub fn new(counters: HashMap<CounterId, i64>, trees: HashSet<TreeId>, next_tree: u64) -> Committed {
        let conflicts = ConflictTable::default();
        Committed { conflicts, counters, trees, next_tree, pending: Vec::new(), prune_at_keys: PRUNE_AT_KEYS }
    }

    fn absorb(
        &mut self,
        counters: HashMap<CounterId, Option<i64>>,
        created: Vec<TreeId>,
        dropped: Vec<TreeId>,
        next_tree: u64,
    ) {
        for (id, value) in counters {
            match value {
                Some(value) => self.counters.insert(id, value),
                None => self.counters.remove(&id),
            };
        }
        self.trees.extend(created);
        for tree in dropped {
            self.trees.remove(&tree);
        }
        self.next_tree = next_tree;
    }
}

/// One transaction on its way through the queue.
struct Request {
    snapshot: Position,
    ops: Vec<Op>,
    counters: Vec<(CounterId, CounterChange)>,
    /// The record without the leader's own operations (counters, next tree id).
    record: Vec<u8>,
    footprint: Footprint,
}

enum Outcome {
    Committed(Position),
    /// In the log but not in the engine.
    Pending(Position),
    Failed(Error),
}

/// Results of admitted requests, merged into [`Committed`] once the log has them.
#[derive(Default)]
struct Draft {
    footprint: GroupFootprint,
    /// `None`: dropped.
    counters: HashMap<CounterId, Option<i64>>,
    created: Vec<TreeId>,
    dropped: Vec<TreeId>,
    next_tree: u64,
    batches: Vec<Batch>,
    records: Vec<Vec<u8>>,
    footprints: Vec<Footprint>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommitPath {
    pub fn new(log: Arc<Log>, engine: Arc<dyn Engine>, options: Options, committed: Committed) -> CommitPath {
        CommitPath {
            published: AtomicU64::new(engine.applied().0),
            next_tree: AtomicU64::new(committed.next_tree),
            queue: Queue::new(options.group_bytes_max),
            engine,
            log,
            options,
            active: Arc::default(),
            hasher: DefaultHashBuilder::default(),
            committed: Mutex::new(committed),
            applied: Condvar::new(),
            applied_lock: Mutex::new(()),
            log_bytes: AtomicU64::new(0),
            low_space: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            poison: OnceLock::new(),
        }
    }

    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn register(&self) -> Ticket {
        self.active.register(&self.published)
    }

    pub fn allot_tree(&self) -> TreeId {
        TreeId(self.next_tree.fetch_add(1, Ordering::Relaxed))
    }

    /// The commit lock. Whoever holds it keeps every committer out.
    pub fn lock(&self) -> MutexGuard<'_, Committed> {
        lock(&self.committed)
    }

    /// Bytes of log since the last call.
    pub fn log_bytes(&self) -> &AtomicU64 {
        &self.log_bytes
    }

    pub fn set_low_space(&self, low: bool) {
        self.low_space.store(low, Ordering::Relaxed);
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub fn poisoned(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    fn check_open(&self) -> Result<()> {
        if let Some(reason) = self.poisoned() {
            return Err(Error::Poisoned { reason: reason.to_owned() });
        }
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Commits through the queue. The ticket keeps the conflict window open until the outcome is known.
    pub fn commit(&self, writes: WriteSet, snapshot: Position, ticket: Ticket) -> Result<Position> {
        let request = self.request(writes, snapshot)?;
        let bytes = request.record.len();
        let outcome = self.queue.submit(request, bytes, |group| {
            let mut committed = self.lock();
            self.process_guarded(&mut committed, group)
        });
        drop(ticket);
        self.settle(outcome)
    }

    /// Commits by a thread that holds the commit lock.
    pub fn commit_locked(
        &self,
        committed: &mut Committed,
        writes: WriteSet,
        snapshot: Position,
        _ticket: Ticket,
    ) -> Result<Position> {
        let request = self.request(writes, snapshot)?;
        match self.process_guarded(committed, vec![request]).pop() {
            Some(Outcome::Committed(position)) => Ok(position),
            Some(Outcome::Pending(position)) => Err(Error::CommittedNotApplied { position }),
            Some(Outcome::Failed(error)) => Err(error),
            None => unreachable!("one outcome per request"),
        }
    }

    /// Waits until the commit at `position` is as durable as asked for.
    pub fn reach(&self, position: Position, durability: Durability) -> Result<()> {
        match durability {
            Durability::Applied => Ok(()),
            Durability::Journaled => self.log.wait_durable(position).map_err(log_error),
        }
    }

    fn settle(&self, outcome: Outcome) -> Result<Position> {
        match outcome {
            Outcome::Committed(position) => Ok(position),
            Outcome::Pending(position) => self.wait_applied(position),
            Outcome::Failed(error) => Err(error),
        }
    }

    fn request(&self, writes: WriteSet, snapshot: Position) -> Result<Request> {
        self.check_open()?;
        let (bytes, bytes_max) = (writes.bytes(), self.options.transaction_bytes_max);
        if bytes > bytes_max {
            return Err(Error::TooLarge { bytes, bytes_max });
        }
        let Changes { ops, counters, logical } = writes.into_changes();
        check_rows(&ops)?;
        if self.low_space.load(Ordering::Relaxed) && ops.iter().any(|op| matches!(op, Op::Put { .. })) {
            return Err(Error::OutOfSpace { context: "the space reserve is reached".into() });
        }
        let mut record = record::begin(&logical, bytes + 64);
        ops.iter().for_each(|op| record::push_op(&mut record, op));
        let footprint = Footprint::of(&self.hasher, &ops);
        Ok(Request { snapshot, ops, counters, record, footprint })
    }

    fn process_guarded(&self, committed: &mut Committed, group: Vec<Request>) -> Vec<Outcome> {
        let count = group.len();
        catch_unwind(AssertUnwindSafe(|| self.process(committed, group))).unwrap_or_else(|_| {
            self.set_poison("the commit path panicked".into());
            let poisoned = || Outcome::Failed(Error::Poisoned { reason: "the commit path panicked".into() });
            (0..count).map(|_| poisoned()).collect()
        })
    }

    fn process(&self, committed: &mut Committed, group: Vec<Request>) -> Vec<Outcome> {
        if let Err(error) = self.check_open().and_then(|()| self.apply_pending(committed)) {
            return group.iter().map(|_| Outcome::Failed(again(&error))).collect();
        }
        let alone = group.len() == 1;
        let mut draft = Draft { next_tree: committed.next_tree, ..Draft::default() };
        let first = self.log.appended().next();
        let mut outcomes = Vec::with_capacity(group.len());
        for request in group {
            let position = Position(first.0 + draft.batches.len() as u64);
            outcomes.push(match admit(committed, &draft, &request) {
                Ok(()) => {
                    self.draft(committed, &mut draft, request, position, alone);
                    Outcome::Committed(position)
                }
                Err(error) => Outcome::Failed(error),
            });
        }
        if draft.batches.is_empty() {
            return outcomes;
        }
        match self.append_and_apply(committed, draft) {
            Ok(Applied::Visible) => outcomes,
            Ok(Applied::Pending) => outcomes.into_iter().map(Outcome::pending).collect(),
            Err(error) => outcomes.into_iter().map(|outcome| outcome.failed(&error)).collect(),
        }
    }

    /// Completes the request with what only the leader knows and adds it to the group.
    fn draft(&self, committed: &Committed, draft: &mut Draft, request: Request, position: Position, alone: bool) {
        let Request { mut ops, counters, mut record, footprint, .. } = request;
        let own_ops = ops.len();
        for (id, change) in counters {
            let before = draft.counters.get(&id).copied().unwrap_or_else(|| committed.counters.get(&id).copied());
            let after = match change {
                CounterChange::Add(delta) => Some(before.unwrap_or(0).wrapping_add(delta)),
                CounterChange::Drop => None,
            };
            draft.counters.insert(id, after);
            ops.push(after.map_or_else(|| ledger::delete_counter(id), |value| ledger::put_counter(id, value)));
        }
        let trees_before = draft.created.len();
        for op in &ops {
            match op {
                Op::CreateTree { tree, .. } => draft.created.push(*tree),
                Op::DropTree { tree } => draft.dropped.push(*tree),
                _ => {}
            }
        }
        let newest = draft.created[trees_before..].iter().map(|tree| tree.0 + 1).max().unwrap_or(0);
        if newest > draft.next_tree {
            draft.next_tree = newest;
            ops.push(ledger::put_next_tree(newest));
        }
        ops[own_ops..].iter().for_each(|op| record::push_op(&mut record, op));
        if !alone {
            draft.footprint.admit(&footprint);
        }
        draft.batches.push(Batch { position, ops });
        draft.records.push(record);
        draft.footprints.push(footprint);
    }

    fn append_and_apply(&self, committed: &mut Committed, draft: Draft) -> Result<Applied> {
        let Draft { counters, created, dropped, next_tree, batches, records, footprints, .. } = draft;
        let payloads: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let last = self.log.append(&payloads).map_err(log_error)?;
        // I2: the leader is the only one that appends, so the positions are those that the batches carry.
        assert_eq!(Some(last), batches.last().map(|batch| batch.position), "I2: consecutive positions");
        self.log_bytes.fetch_add(payloads.iter().map(|p| p.len() as u64).sum(), Ordering::Relaxed);

        committed.absorb(counters, created, dropped, next_tree);

        let result = self.apply(&batches);
        let pending = matches!(result, Err(Error::OutOfSpace { .. }));
        if pending {
            committed.pending = batches.clone();
        }
        for (batch, footprint) in batches.into_iter().zip(footprints) {
            committed.conflicts.record(batch, footprint);
        }
        match result {
            Err(_) if pending => Ok(Applied::Pending),
            Err(error) => Err(error),
            Ok(()) => {
                self.publish(last);
                self.prune(committed, last);
                Ok(Applied::Visible)
            }
        }
    }

    /// Any failure but a lack of space poisons: the log holds what the engine does not.
    fn apply(&self, batches: &[Batch]) -> Result<()> {
        match catch_unwind(AssertUnwindSafe(|| self.engine.apply(batches))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(arbor_engine::Error::OutOfSpace { context })) => Err(Error::OutOfSpace { context }),
            Ok(Err(error)) => Err(self.set_poison(format!("apply: {error}"))),
            Err(_) => Err(self.set_poison("apply panicked".into())),
        }
    }

    fn set_poison(&self, reason: String) -> Error {
        let reason = self.poison.get_or_init(|| reason).clone();
        Error::Poisoned { reason }
    }

    fn publish(&self, position: Position) {
        self.published.store(position.0, Ordering::Release);
    }

    fn prune(&self, committed: &mut Committed, published: Position) {
        if committed.conflicts.len() >= committed.prune_at_keys {
            committed.conflicts.prune(self.active.oldest(published));
            committed.prune_at_keys = PRUNE_AT_KEYS.max(committed.conflicts.len() * 2);
        }
    }

    /// Applies what the log holds and the engine had no space for. `Ok` when nothing is left.
    pub fn apply_pending(&self, committed: &mut Committed) -> Result<()> {
        let Some(last) = committed.pending.last().map(|batch| batch.position) else { return Ok(()) };
        let applied = self.engine.applied();
        committed.pending.retain(|batch| batch.position > applied);
        self.apply(&committed.pending)?;
        committed.pending = Vec::new();
        self.publish(last);
        let _guard = lock(&self.applied_lock);
        self.applied.notify_all();
        Ok(())
    }

    fn wait_applied(&self, position: Position) -> Result<Position> {
        let deadline = Instant::now() + self.options.apply_wait;
        while self.published.load(Ordering::Acquire) < position.0 {
            if self.check_open().is_err() || Instant::now() >= deadline {
                return Err(Error::CommittedNotApplied { position });
            }
            let guard = lock(&self.applied_lock);
            drop(self.applied.wait_timeout(guard, APPLY_RETRY));
            self.retry_pending();
        }
        Ok(position)
    }

    /// Tries pending batches again unless a leader is at work, which does so itself.
    pub fn retry_pending(&self) {
        let mut committed = match self.committed.try_lock() {
            Ok(committed) => committed,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let _still_full = self.apply_pending(&mut committed);
    }
}

enum Applied {
    Visible,
    Pending,
}

impl Outcome {
    fn pending(self) -> Outcome {
        match self {
            Outcome::Committed(position) => Outcome::Pending(position),
            other => other,
        }
    }

    fn failed(self, error: &Error) -> Outcome {
        match self {
            Outcome::Committed(_) => Outcome::Failed(again(error)),
            other => other,
        }
    }
}

/// The same failure for another member of the group.
fn again(error: &Error) -> Error {
    match error {
        Error::OutOfSpace { context } => Error::OutOfSpace { context: context.clone() },
        Error::Poisoned { reason } => Error::Poisoned { reason: reason.clone() },
        Error::Closed => Error::Closed,
        other => Error::Refused { reason: other.to_string() },
    }
}

pub(crate) fn log_error(error: arbor_log::Error) -> Error {
    match error {
        arbor_log::Error::OutOfSpace { context } => Error::OutOfSpace { context },
        arbor_log::Error::Poisoned { context } => Error::Poisoned { reason: context },
        arbor_log::Error::Closed => Error::Closed,
        arbor_log::Error::TooLarge { length, max } => Error::TooLarge { bytes: length, bytes_max: max },
        other => Error::Log(other),
    }
}

/// First committer wins; every written tree exists.
fn admit(committed: &Committed, draft: &Draft, request: &Request) -> Result<()> {
    check_trees(committed, draft, &request.ops)?;
    let conflicts = committed.conflicts.conflicts(request.snapshot, &request.footprint, &request.ops)
        || draft.footprint.conflicts(&request.footprint, &request.ops, &draft.batches);
    if conflicts { Err(Error::Conflict) } else { Ok(()) }
}

/// What the engine would refuse must not reach the log.
fn check_rows(ops: &[Op]) -> Result<()> {
    for op in ops {
        match op {
            Op::Put { key, value, .. } => limits::check_row(key, value)?,
            Op::Delete { key, .. } => limits::check_row(key, &[])?,
            Op::DeleteRange { from, to, .. } => {
                limits::check_row(from, &[])?;
                limits::check_row(to.as_deref().unwrap_or_default(), &[])?;
            }
            Op::CreateTree { .. } | Op::DropTree { .. } => {}
        }
    }
    Ok(())
}

fn check_trees(committed: &Committed, draft: &Draft, ops: &[Op]) -> Result<()> {
    let mut known = LEDGER;
    let mut created = HashSet::new();
    for op in ops {
        match op {
            Op::CreateTree { tree, .. } => {
                created.insert(*tree);
            }
            Op::DropTree { .. } => {}
            Op::Put { tree, .. } | Op::Delete { tree, .. } | Op::DeleteRange { tree, .. } => {
                if *tree == known {
                    continue;
                }
                let exists = committed.trees.contains(tree) && !draft.dropped.contains(tree);
                if !exists && !created.contains(tree) && *tree != LEDGER {
                    return Err(Error::UnknownTree(*tree));
                }
                known = *tree;
            }
        }
    }
    Ok(())
}
