//! The commit path: conflict check, append, apply, publish. The only caller of `log.append` and `engine.apply`.
//!
//! A group's leader holds the commit lock from the conflict check to the publication; the wait for the fsync comes after
//! it, by each committer for itself. In a set of several members it holds the lock until the group is in the log; the group is then in
//! flight, and the thread that moves the commit point takes the lock again to apply and publish it (`commit_rule.rs`).
//!
//! Effects of a failure:
//!
//! | step | what fails | the group | afterwards |
//! |---|---|---|---|
//! | append | no space | refused, nothing written | writes continue when there is space |
//! | append | anything else | refused | poisoned (the log says so itself) |
//! | apply | no space | **in the log, so it will happen**: its committers wait up to `apply_wait`, then get `CommittedNotApplied` | the batches stay in flight and are applied before anything else; new writes are refused with `OutOfSpace` until then; reads continue |
//! | apply | error or panic | `Poisoned`, outcome open until the next start | writes are refused, reads continue |
//! | fsync | error | `Poisoned`, visible, durability open | the log refuses every later append |
//!
//! Space that is not found is taken from the reserve once ([`Space`](crate::Space)); while space is low, writes are refused before
//! the append, and transactions that only delete are let through, since they make space.
//!
//! A transaction that is too large for one record is appended as a chain (`chain.rs`), alone in its group. When the append
//! fails midway it is refused, and an empty batch takes the place of its links.
//!
//! Lock order: large transactions, commit lock, a shard of the active transactions.

mod append;
mod apply;
mod follow;
mod member;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbor_base::memory::{self, Reservation};
use arbor_base::{Position, TreeId, sometimes};
use arbor_engine::{Batch, Engine};
use arbor_log::Log;
use hashbrown::DefaultHashBuilder;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::active::{ActiveTransactions, Ticket};
use crate::aside::AsideViews;
use crate::claims::{Claims, OwnClaims};
use crate::clock::Clock;
use crate::commit_rule::{CommitRule, Term};
use crate::commit_waiters::{CommitWaiters, PositionReached};
use crate::error::log_error;
use crate::fetch::loads::Loads;
use crate::group::{Committed, Draft, PRUNE_AT, Request};
use crate::held_states::Past;
use crate::prepared::table::{PreparedTable, TransactionId};
use crate::queue::Queue;
use crate::write_set::WriteSet;
use crate::{Durability, Error, Options, Pending, Result, Retention, Space};

/// Copies of a large transaction while it commits: its operations, and in the engine (LMDB holds the pages that a transaction changes).
const COMMIT_COPIES: usize = 2;

/// Bytes that a statement writes for one document, at most: the document, its image of before for a retry, and their keys.
const STATEMENT_BYTES_MAX: usize = 33 << 20;

/// Timeout of the wait for memory by the commit of a large transaction.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct CommitPath {
    engine: Arc<dyn Engine>,
    log: Arc<Log>,
    options: Options,
    active: Arc<ActiveTransactions>,
    claims: Arc<Claims>,
    prepared: PreparedTable,
    /// [`ConflictTable::floor`](crate::conflict::ConflictTable::floor) without the lock.
    conflict_floor: AtomicU64,
    hasher: DefaultHashBuilder,
    clock: Clock,
    /// `Some` from the start or never.
    retention: Option<Mutex<Retention>>,
    /// Together with `retention`.
    past: Option<Past>,
    aside: AsideViews,
    history_window_ms: AtomicU64,
    queue: Queue<Request, Outcome>,
    committed: Mutex<Committed>,
    /// Signalled, with the commit lock, when something in flight was applied, and when the lead changes.
    flow: Condvar,
    /// Position from which on transactions of the present term read.
    term_floor: AtomicU64,
    appended: OnceLock<AppendListener>,
    durable: Arc<OnceLock<AppendListener>>,
    observer: OnceLock<Arc<dyn crate::Applied>>,
    loads: Loads,
    /// Signalled when pending batches are applied.
    applied: Condvar,
    applied_lock: Mutex<()>,
    /// The published position, and the waiters for more of the history.
    waiters: Arc<CommitWaiters>,
    next_tree: AtomicU64,
    /// The last position in the log that ends a record: everything up to here will be visible.
    logged: AtomicU64,
    /// Held from taking a large transaction apart to its outcome. Taken before the commit lock.
    large: Mutex<()>,
    log_bytes: AtomicU64,
    log_written: AtomicU64,
    /// The rule is [`CommitRule::Set`].
    is_of_set: AtomicBool,
    closed: AtomicBool,
    /// No thread waits for a commit of the set any more.
    without_waits: AtomicBool,
    poison: OnceLock<String>,
}

/// Called with a position of the log: the last one after an append under [`CommitRule::Set`], with the commit lock held, or the last one
/// after a sync.
pub type AppendListener = Box<dyn Fn(Position) + Send + Sync>;

enum Outcome {
    Committed(Position),
    /// In the log; it counts when the set has it.
    Logged(Arc<Term>, Position),
    /// A commit up to this position, which is in flight, came first.
    Conflict(Arc<Term>, Position),
    /// A prepared transaction has one of the keys.
    Prepared(TransactionId),
    /// In the log but not in the engine.
    Pending(Position),
    Failed(Error),
}

impl CommitPath {
    pub(crate) fn new(
        log: Arc<Log>,
        engine: Arc<dyn Engine>,
        options: Options,
        mut committed: Committed,
        loads: Loads,
    ) -> CommitPath {
        assert!(
            options.record_bytes_max <= arbor_log::PAYLOAD_BYTES_MAX / 2,
            "a record that is no chain fits into the log"
        );
        committed.prune_at = PRUNE_AT.min(options.conflict_keys_max + 1);
        let waiters = Arc::new(CommitWaiters::new(engine.applied(), log.durable()));
        let synced = waiters.clone();
        let listener: Arc<OnceLock<AppendListener>> = Arc::default();
        let durable = listener.clone();
        log.on_sync(Arc::new(move |position| {
            let another = synced.synced(position);
            listener.get().iter().for_each(|listener| listener(position));
            another
        }));
        let _no_waiters = waiters.synced(log.durable());
        let clock = Clock::new(options.clock.clone());
        CommitPath {
            waiters,
            next_tree: AtomicU64::new(committed.next_tree),
            logged: AtomicU64::new(engine.applied().0),
            large: Mutex::default(),
            queue: Queue::new(options.group_bytes_max),
            engine,
            log,
            past: options.history.map(|_| Past::default()),
            aside: AsideViews::default(),
            history_window_ms: AtomicU64::new(options.history_window.as_millis() as u64),
            retention: options.history.map(Mutex::new),
            options,
            active: Arc::default(),
            claims: Arc::default(),
            prepared: PreparedTable::default(),
            conflict_floor: AtomicU64::new(0),
            hasher: DefaultHashBuilder::default(),
            clock,
            committed: Mutex::new(committed),
            flow: Condvar::new(),
            term_floor: AtomicU64::new(0),
            appended: OnceLock::new(),
            durable,
            observer: OnceLock::new(),
            loads,
            applied: Condvar::new(),
            applied_lock: Mutex::new(()),
            log_bytes: AtomicU64::new(0),
            log_written: AtomicU64::new(0),
            is_of_set: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            without_waits: AtomicBool::new(false),
            poison: OnceLock::new(),
        }
    }

    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn keeps_history(&self) -> bool {
        self.retention.is_some()
    }

    pub(crate) fn retention(&self) -> Option<Retention> {
        self.retention.as_ref().map(|retention| *retention.lock())
    }

    pub(crate) fn set_retention(&self, new: Retention) {
        self.retention.iter().for_each(|retention| *retention.lock() = new);
    }

    pub(crate) fn aside(&self) -> &AsideViews {
        &self.aside
    }

    pub(crate) fn past(&self) -> Option<&Past> {
        self.past.as_ref()
    }

    pub(crate) fn history_window(&self) -> Duration {
        Duration::from_millis(self.history_window_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn set_history_window(&self, window: Duration) {
        self.history_window_ms.store(window.as_millis() as u64, Ordering::Relaxed);
    }

    /// The last position in the log that ends a record and is certain to become visible. Some of the newest may not be so yet.
    pub(crate) fn logged(&self) -> Position {
        if self.is_of_set.load(Ordering::Acquire) {
            return self.published();
        }
        Position(self.logged.load(Ordering::Acquire))
    }

    pub(crate) fn prepared(&self) -> &PreparedTable {
        &self.prepared
    }

    pub(crate) fn register(&self) -> Ticket {
        self.active.register(|| self.waiters.published())
    }

    pub(crate) fn open_claims(&self) -> OwnClaims {
        self.claims.open()
    }

    pub(crate) fn hasher(&self) -> &DefaultHashBuilder {
        &self.hasher
    }

    /// Returns the position up to which the conflict table may have forgotten commits.
    pub(crate) fn conflict_floor(&self) -> Position {
        Position(self.conflict_floor.load(Ordering::Acquire))
    }

    pub(crate) fn allot_tree(&self) -> TreeId {
        TreeId(self.next_tree.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes the commit lock, which keeps all other committers out.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Committed> {
        self.committed.lock()
    }

    /// Bytes of log since the last checkpoint.
    pub(crate) fn log_bytes(&self) -> &AtomicU64 {
        &self.log_bytes
    }

    /// Bytes of records since the start, uncompressed.
    pub(crate) fn log_written(&self) -> u64 {
        self.log_written.load(Ordering::Relaxed)
    }

    fn count_logged(&self, bytes: u64) {
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        let written = self.log_written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.space().iter().for_each(|space| space.logged(written));
    }

    pub(crate) fn space(&self) -> Option<&Space> {
        self.options.space.as_deref()
    }

    /// A write found no space. Returns true if it may find some now.
    pub(crate) fn space_exhausted(&self) -> bool {
        self.space().is_some_and(Space::exhausted)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.waiters.close();
        self.flow.notify_all();
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiters.waiting()
    }

    pub(crate) fn end_waits(&self) {
        self.without_waits.store(true, Ordering::Release);
        self.waiters.interrupt();
    }

    pub(crate) fn is_without_waits(&self) -> bool {
        self.without_waits.load(Ordering::Acquire)
    }

    /// Returns true if no commit in flight is applied any more.
    pub(crate) fn is_ended(&self) -> bool {
        self.closed.load(Ordering::Acquire) || self.poisoned().is_some()
    }

    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if let Some(reason) = self.poisoned() {
            return Err(Error::Poisoned { reason: reason.to_owned() });
        }
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Commits through the queue. The ticket keeps the conflict window open until the outcome is known.
    pub(crate) fn commit(&self, writes: WriteSet, snapshot: Position, ticket: Ticket) -> Result<Position> {
        let (outcome, _memory, _large) = self.submit(writes, snapshot)?;
        drop(ticket);
        self.settle(outcome)
    }

    /// Stage 1 of a commit; under [`CommitRule::Own`] all of it.
    pub(crate) fn commit_begin(
        self: &Arc<Self>,
        writes: WriteSet,
        snapshot: Position,
        ticket: Ticket,
    ) -> Result<Pending> {
        let (outcome, ..) = self.submit(writes, snapshot)?;
        drop(ticket);
        match outcome {
            Outcome::Logged(term, position) => Ok(Pending::new(self.clone(), Some(term), position)),
            Outcome::Conflict(..) | Outcome::Prepared(_) => Err(Error::Conflict),
            outcome => Ok(Pending::new(self.clone(), None, self.settle(outcome)?)),
        }
    }

    /// Has a leader log the writes. Memory and lock are for the time until the outcome is known.
    fn submit(
        &self,
        mut writes: WriteSet,
        snapshot: Position,
    ) -> Result<(Outcome, Reservation, Option<MutexGuard<'_, ()>>)> {
        // The memory of one large transaction is enough.
        let one_at_a_time = self.is_chained(&writes).then(|| self.large.lock());
        let mut memory = writes.take_reservation();
        if one_at_a_time.is_some() {
            self.reserve_whole(&writes, &mut memory)?;
        }
        let request = self.request(writes, snapshot)?;
        Ok((self.submit_request(request), memory, one_at_a_time))
    }

    /// Has a request processed that is no transaction's write set any more, and waits for its outcome.
    pub(crate) fn submit_and_settle(&self, request: Request) -> Result<Position> {
        self.check_open()?;
        self.check_space(&request)?;
        let one_at_a_time = request.chained.then(|| self.large.lock());
        let outcome = self.submit_request(request);
        drop(one_at_a_time);
        self.settle(outcome)
    }

    fn submit_request(&self, request: Request) -> Outcome {
        let weight = request.weight();
        self.queue.submit(request, weight, |group| {
            self.guarded(group, |group| {
                self.release_states();
                self.engine.wait_for_room();
                let mut committed = self.lock();
                match self.enter(&mut committed) {
                    Ok(()) => self.process(&mut committed, group),
                    Err(error) => group.iter().map(|_| Outcome::Failed(again(&error))).collect(),
                }
            })
        })
    }

    /// Commits by a thread that holds the commit lock.
    pub(crate) fn commit_locked(
        self: &Arc<Self>,
        committed: &mut Committed,
        writes: WriteSet,
        snapshot: Position,
        _ticket: Ticket,
    ) -> Result<Pending> {
        let request = self.request(writes, snapshot)?;
        match self.guarded(vec![request], |group| self.process(committed, group)).pop() {
            Some(Outcome::Committed(position)) => Ok(Pending::new(self.clone(), None, position)),
            Some(Outcome::Logged(term, position)) => Ok(Pending::new(self.clone(), Some(term), position)),
            Some(Outcome::Conflict(..) | Outcome::Prepared(_)) => Err(Error::Conflict),
            Some(Outcome::Pending(position)) => Err(Error::CommittedNotApplied { position }),
            Some(Outcome::Failed(error)) => Err(error),
            None => unreachable!("one outcome per request"),
        }
    }

    /// Waits until the commit at `position` is as durable as asked for.
    pub(crate) fn reach(&self, position: Position, durability: Durability) -> Result<()> {
        match durability {
            Durability::Applied => Ok(()),
            Durability::Journaled => self.log.wait_durable(position).map_err(log_error),
        }
    }

    fn settle(&self, outcome: Outcome) -> Result<Position> {
        match outcome {
            Outcome::Committed(position) => Ok(position),
            Outcome::Logged(term, position) => self.wait_patiently(&term, position),
            Outcome::Conflict(term, position) => {
                // The same work on a new snapshot would conflict again until that commit is visible.
                let _outcome = self.wait_committed(&term, position, None);
                Err(Error::Conflict)
            }
            Outcome::Prepared(id) => {
                self.wait_for_owner(id);
                Err(Error::Conflict)
            }
            Outcome::Pending(position) => self.wait_applied(position),
            Outcome::Failed(error) => Err(error),
        }
    }

    /// Reserves memory for all that a large transaction has written: what is in its file is read back. One that is no larger
    /// than what may be in memory anyway, or than what a statement writes for one document, is not refused.
    fn reserve_whole(&self, writes: &WriteSet, memory: &mut Reservation) -> Result<()> {
        let bytes = writes.bytes();
        if bytes <= self.options.write_set_memory_max.max(STATEMENT_BYTES_MAX) {
            memory.cover(COMMIT_COPIES * bytes);
            return Ok(());
        }
        let bytes_max = usize::try_from(memory::process().room() / COMMIT_COPIES as u64).unwrap_or(usize::MAX);
        if bytes <= bytes_max && memory.wait_for_all(COMMIT_COPIES * bytes, MEMORY_PATIENCE) {
            return Ok(());
        }
        Err(Error::TooLarge { bytes, bytes_max })
    }

    fn is_chained(&self, writes: &WriteSet) -> bool {
        writes.bytes() > self.options.record_bytes_max
    }

    /// Errors: more than a transaction may write.
    pub(crate) fn check_size(&self, writes: &WriteSet) -> Result<()> {
        let (bytes, bytes_max) = (writes.bytes(), self.options.transaction_bytes_max);
        if bytes > bytes_max { Err(Error::TooLarge { bytes, bytes_max }) } else { Ok(()) }
    }

    fn request(&self, writes: WriteSet, snapshot: Position) -> Result<Request> {
        self.check_open()?;
        self.check_size(&writes)?;
        let (bytes, chained) = (writes.bytes(), self.is_chained(&writes));
        let changes = writes.into_changes()?;
        let mut request = Request::new(&*self.engine, changes, snapshot, &self.hasher, bytes, chained)?;
        self.check_space(&request)?;
        if self.options.compress_records {
            request.compress();
        }
        Ok(request)
    }

    /// Refuses what needs space while space is low. What frees some is noted: it shows after another checkpoint. (A refused request is not, or
    /// one that is repeated would put the checkpoint off each time.)
    fn check_space(&self, request: &Request) -> Result<()> {
        match self.space().filter(|space| space.is_low()) {
            Some(_) if request.puts_anything() => Err(Error::OutOfSpace { context: "only the reserve is left".into() }),
            Some(space) => {
                space.changed();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Runs `process` so that a panic, or a wrong number of outcomes, poisons the commit path instead of leaving committers
    /// waiting.
    fn guarded(&self, group: Vec<Request>, process: impl FnOnce(Vec<Request>) -> Vec<Outcome>) -> Vec<Outcome> {
        let count = group.len();
        let checked = || {
            let outcomes = process(group);
            assert_eq!(outcomes.len(), count, "one outcome per request");
            outcomes
        };
        catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(|_| {
            self.set_poison("the commit path panicked".into());
            let poisoned = || Outcome::Failed(Error::Poisoned { reason: "the commit path panicked".into() });
            (0..count).map(|_| poisoned()).collect()
        })
    }

    fn process(&self, committed: &mut Committed, group: Vec<Request>) -> Vec<Outcome> {
        if let Err(error) = self.check_open().and_then(|()| self.apply_ready(committed)) {
            return group.iter().map(|_| Outcome::Failed(again(&error))).collect();
        }
        let alone = group.len() == 1;
        let mut draft = Draft::new(committed);
        let first = self.log.appended().next();
        let mut outcomes = Vec::with_capacity(group.len());
        for request in group {
            let position = Position(first.0 + draft.batches.len() as u64);
            outcomes.push(match draft.check(committed, &request, &self.prepared) {
                Err(Error::Conflict) if let Some(owner) = self.owner_of(&request) => Outcome::Prepared(owner),
                Ok(()) => {
                    let stamp = self.clock.stamp(request.notes);
                    draft.add(committed, request, position, stamp, alone);
                    Outcome::Committed(position)
                }
                Err(Error::Conflict) if committed.rule == CommitRule::Set => self.conflict(committed, &draft, &request),
                Err(error) => Outcome::Failed(error),
            });
        }
        if draft.batches.is_empty() {
            return outcomes;
        }
        let appended = self.append_and_apply(committed, draft, &mut outcomes);
        self.validate(committed);
        match appended {
            Ok(Stage::Visible) => outcomes,
            Ok(Stage::Logged(term)) => outcomes.into_iter().map(|outcome| outcome.logged(&term)).collect(),
            Ok(Stage::Pending) => outcomes.into_iter().map(Outcome::pending).collect(),
            Err(error) => outcomes.into_iter().map(|outcome| outcome.failed(&error)).collect(),
        }
    }

    fn append_and_apply(&self, committed: &mut Committed, mut draft: Draft, outcomes: &mut [Outcome]) -> Result<Stage> {
        let last = match draft.chain {
            None => self.append(&draft)?,
            Some(stamp) => {
                let last = self.append_chain(committed, &draft, stamp)?;
                draft.batches.iter_mut().for_each(|batch| batch.position = last);
                outcomes.iter_mut().for_each(|outcome| *outcome = Outcome::Committed(last));
                last
            }
        };
        let logged = self.logged.swap(last.0, Ordering::AcqRel);
        assert!(logged < last.0, "{last:?} was logged after {logged}");
        assert!(last <= self.log.appended(), "{last:?} is not in the log");

        committed.absorb(&mut draft);
        if let Some((special, stamp)) = draft.special.take() {
            self.prepared.appended(special, stamp, last, self.history_window());
        }
        if committed.rule == CommitRule::Set {
            return self.leave_in_flight(committed, draft, last);
        }

        let mut result = self.apply(&draft.batches);
        if matches!(result, Err(Error::OutOfSpace { .. })) && self.space_exhausted() {
            sometimes!("txn: applied with the reserve");
            result = self.apply(&draft.batches);
        }
        let pending = matches!(result, Err(Error::OutOfSpace { .. }));
        if pending {
            sometimes!("txn: a group waits for space");
            assert!(committed.in_flight.is_empty(), "a group was taken while another waits for space");
            let time = committed.last_time;
            draft.batches.iter().for_each(|batch| committed.in_flight.push(batch.clone(), time, time));
        }
        for (batch, footprint) in draft.batches.into_iter().zip(draft.footprints) {
            committed.conflicts.record(batch, footprint);
        }
        match result {
            Err(_) if pending => Ok(Stage::Pending),
            Err(error) => Err(error),
            Ok(()) => {
                assert!(
                    self.engine.applied() >= last,
                    "{last:?} was applied, but the engine is at {:?}",
                    self.engine.applied()
                );
                self.publish(last);
                self.prune(committed, last);
                Ok(Stage::Visible)
            }
        }
    }

    /// The last commit that the request conflicts with.
    fn conflict(&self, committed: &Committed, draft: &Draft, request: &Request) -> Outcome {
        let Some(term) = committed.term() else { return Outcome::Failed(Error::NotLeading) };
        let before = committed.conflicts.last_conflict(request.snapshot, &request.footprint, &request.ops);
        let in_group = draft.batches.last().map(|batch| batch.position);
        Outcome::Conflict(term.clone(), before.max(in_group).unwrap_or(committed.conflicts.floor()))
    }

    /// Ends stage 1: the batches wait for the commit point.
    fn leave_in_flight(&self, committed: &mut Committed, draft: Draft, last: Position) -> Result<Stage> {
        let term = committed.term().cloned().ok_or(Error::NotLeading)?;
        for ((batch, footprint), record) in draft.batches.into_iter().zip(draft.footprints).zip(&draft.records) {
            let times = crate::record::times_of(record);
            let (stamp, last_time) =
                times.map_err(|reason| Error::CorruptRecord { position: batch.position, reason })?;
            committed.conflicts.record(batch.clone(), footprint);
            committed.in_flight.push(batch, stamp.time, last_time);
        }
        self.log.request_sync();
        self.notify_appended(last);
        Ok(Stage::Logged(term))
    }

    /// The order of the positions, which every commit keeps. The commit lock is held, so none of them moves but `durable`.
    pub(crate) fn validate(&self, committed: &Committed) {
        // Read before what it is compared with.
        let (durable, published) = (self.log.durable(), self.published());
        let (logged, appended) = (self.logged(), self.log.appended());
        assert!(durable <= appended, "durable {durable}, appended {appended}");
        assert!(published <= logged, "published {published}, logged {logged}");
        assert!(logged <= appended, "logged {logged}, appended {appended}");
        let first = committed.in_flight.first();
        debug_assert!(first.is_none_or(|first| first > published), "{first:?} is in flight and published {published}");
        assert!(
            committed.rule == CommitRule::Own || published <= committed.commit_point.min(self.log.durable()),
            "S1: published {published}, commit point {}",
            committed.commit_point
        );
        debug_assert!(
            self.engine.durable() <= durable.max(self.log.durable()),
            "the engine kept what the log may lose"
        );
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
        self.waiters.interrupt();
        self.flow.notify_all();
        Error::Poisoned { reason }
    }

    pub(crate) fn published(&self) -> Position {
        self.waiters.published()
    }

    /// Returns the last position that the history shows: records up to it are visible and on the disk.
    pub(crate) fn frontier(&self) -> Position {
        self.waiters.frontier()
    }

    pub(crate) fn publish(&self, position: Position) {
        if self.waiters.publish(position) {
            self.log.request_sync();
        }
    }

    /// The moment when the history shows a position.
    pub(crate) fn position_reached(&self, position: Position) -> PositionReached {
        PositionReached::new(self.waiters.clone(), self.log.clone(), position)
    }

    fn prune(&self, committed: &mut Committed, published: Position) {
        if committed.conflicts.size() >= committed.prune_at {
            committed.conflicts.prune(self.active.oldest(published));
            committed.conflicts.bound(self.options.conflict_keys_max, published);
            self.conflict_floor.store(committed.conflicts.floor().0, Ordering::Release);
            let grown = committed.conflicts.size() * 2;
            let at_most = self.options.conflict_keys_max + 1;
            committed.prune_at = grown.max(PRUNE_AT).min(at_most);
        }
    }
}

enum Stage {
    Visible,
    Logged(Arc<Term>),
    Pending,
}

impl Outcome {
    fn pending(self) -> Outcome {
        match self {
            Outcome::Committed(position) => Outcome::Pending(position),
            other => other,
        }
    }

    fn logged(self, term: &Arc<Term>) -> Outcome {
        match self {
            Outcome::Committed(position) => Outcome::Logged(term.clone(), position),
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

/// Returns the error again, for another member of the group.
fn again(error: &Error) -> Error {
    match error {
        Error::OutOfSpace { context } => Error::OutOfSpace { context: context.clone() },
        Error::Poisoned { reason } => Error::Poisoned { reason: reason.clone() },
        Error::Closed => Error::Closed,
        Error::NotLeading => Error::NotLeading,
        other => Error::Refused { reason: other.to_string() },
    }
}
