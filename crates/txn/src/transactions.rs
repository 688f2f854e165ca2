//! [`Transactions`]: entry point of this crate: snapshots, transactions, checkpoints, close.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arbor_base::{Position, TreeId, work};
use arbor_engine::Engine;
use arbor_log::Log;
use parking_lot::Mutex;

use crate::checkpoint::{CheckpointStats, Checkpoints};
use crate::commit::CommitPath;
use crate::recovery;
use crate::{
    Aside, CounterId, Durability, Error, Follower, History, Opening, Options, PositionReached, ReadView, Result,
    Retention, Stamp, Transaction, View,
};

/// One log and one engine under one commit path. Shared by all threads.
pub struct Transactions {
    pub(crate) path: Arc<CommitPath>,
    checkpoints: Arc<Checkpoints>,
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// An error of a layer above that may be a write conflict.
pub trait MaybeConflict {
    /// Returns true if the same work may succeed on a new snapshot.
    fn is_conflict(&self) -> bool;
}

impl MaybeConflict for Error {
    fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict)
    }
}

impl Transactions {
    /// Replays the log after `engine.applied()` and starts the checkpoint thread.
    pub fn open(log: impl Into<Arc<Log>>, engine: Arc<dyn Engine>, options: Options) -> Result<Arc<Transactions>> {
        Transactions::open_as(Opening::Own, log, engine, options)
    }

    /// Opens as a member that leads or follows. A follower writes nothing: neither to the log, nor to the engine what
    /// the engine has not had before.
    pub fn open_as(
        opening: Opening,
        log: impl Into<Arc<Log>>,
        engine: Arc<dyn Engine>,
        options: Options,
    ) -> Result<Arc<Transactions>> {
        let has_thread = options.checkpoint_thread;
        let path = Arc::new(recovery::open(opening, log.into(), engine, options)?);
        let checkpoints = Arc::new(Checkpoints::new(path.clone()));
        let thread = has_thread.then(|| checkpoints.start()).transpose().map_err(|source| {
            Error::Engine(arbor_engine::Error::Io { context: "start the checkpoint thread".into(), source })
        })?;
        Ok(Arc::new(Transactions { path, checkpoints, closed: AtomicBool::new(false), thread: Mutex::new(thread) }))
    }

    /// A snapshot of the last published commit. Takes no lock and touches no counter that threads share here.
    pub fn read(&self) -> Result<ReadView> {
        Ok(ReadView::new(self.path.engine().snapshot()?))
    }

    /// Returns a place for a view that is taken now and that the writer may release while it is idle. `None`: no view costs the engine
    /// memory.
    pub fn aside(&self) -> Option<Aside> {
        self.path.engine().capabilities().held_snapshot_bytes_max?;
        Some(self.path.aside().place(self.path.log_written()))
    }

    /// The present state, and its time: [`Transactions::view_at`] shows the same state again while the history window lasts
    /// (or until many others were asked for).
    pub fn read_timed(&self) -> Result<(ReadView, u64)> {
        self.path.read_timed()
    }

    /// The state that all commits up to `time` have made. Cheapest for the present and for times of
    /// [`Transactions::read_timed`]; others may take a replay of some seconds of the log.
    ///
    /// Errors: `NotYet` in the future, `SnapshotTooOld` before the history window, and for every past time when no history is
    /// kept.
    pub fn view_at(&self, time: u64) -> Result<ReadView> {
        self.path.view_at(time)
    }

    /// Returns the minimum age that [`Transactions::view_at`] reaches, once the server has run for that long. Engines in which held
    /// snapshots keep space from being used (LMDB) go back some seconds only.
    pub fn history_window(&self) -> Duration {
        self.path.history_window()
    }

    pub fn set_history_window(&self, window: Duration) {
        self.path.set_history_window(window);
    }

    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(self.path.clone())
    }

    /// A transaction of several statements, which finds conflicts early (see [`Transaction::claim`]).
    pub fn begin_open(&self) -> Result<Transaction> {
        Transaction::begin_open(self.path.clone())
    }

    /// A transaction of several statements that claims nothing: it finds conflicts at its commit, and none with what is only open.
    pub fn begin_unclaimed(&self) -> Result<Transaction> {
        Transaction::begin_unclaimed(self.path.clone())
    }

    /// Runs `work` on a new transaction and commits it, again and again until no other commit came in between. After
    /// `Options::retries_before_exclusive` lost races it keeps other committers out for one attempt, so it always ends.
    ///
    /// Requires a `work` that may run several times, that begins no other transaction, and that waits for no lock that
    /// another committer may hold.
    pub fn retry<T, E>(
        &self,
        durability: Durability,
        mut work: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, Position), E>
    where
        E: From<Error> + MaybeConflict,
    {
        for _ in 0..self.path.options().retries_before_exclusive {
            let mut transaction = self.begin()?;
            let outcome = work(&mut transaction);
            match outcome.and_then(|answer| Ok((answer, transaction.commit(durability)?))) {
                Err(error) if error.is_conflict() => work::note(|work| work.write_conflicts += 1),
                settled => return settled,
            }
        }
        self.run_exclusive(durability, work)
    }

    fn run_exclusive<T, E: From<Error>>(
        &self,
        durability: Durability,
        mut work: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, Position), E> {
        let mut committed = self.path.lock();
        self.path.enter_exclusive(&mut committed)?;
        let attempt = || {
            let mut transaction = self.begin()?;
            let answer = work(&mut transaction)?;
            Ok((answer, transaction.commit_exclusive(&mut committed)?))
        };
        let outcome: std::thread::Result<std::result::Result<_, E>> = catch_unwind(AssertUnwindSafe(attempt));
        self.path.leave_exclusive(&mut committed);
        drop(committed);
        let (answer, pending) = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
        let position = pending.wait_patiently()?;
        self.path.reach(position, durability)?;
        Ok((answer, position))
    }

    /// The counter's value at the last published commit.
    pub fn counter(&self, id: CounterId) -> Result<i64> {
        self.read()?.counter(id)
    }

    /// Fills an empty tree with rows in key order, past the log. Requires a checkpoint before a commit refers to the rows.
    pub fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.path.bulk_load(tree, rows)
    }

    pub fn engine(&self) -> &Arc<dyn Engine> {
        self.path.engine()
    }

    pub fn log(&self) -> &Arc<Log> {
        self.path.log()
    }

    /// Returns the failure because of which writes are refused, if there was one.
    pub fn poisoned(&self) -> Option<&str> {
        self.path.poisoned()
    }

    pub fn checkpoint_now(&self) -> Result<Position> {
        self.checkpoints.checkpoint()
    }

    /// At the latest after this time with new commits a checkpoint begins.
    pub fn checkpoint_interval(&self) -> Duration {
        self.checkpoints.interval()
    }

    pub fn set_checkpoint_interval(&self, interval: Duration) {
        self.checkpoints.set_interval(interval);
    }

    pub fn checkpoint_stats(&self) -> CheckpointStats {
        self.checkpoints.stats()
    }

    /// Checks the free space now; the checkpoint thread does so about every second.
    pub fn check_free_space(&self) {
        self.checkpoints.watch_space();
    }

    /// Has the log keep what other members still fetch, from a position on, as far as the limit of bytes allows. None: nothing.
    pub fn hold_log_for_members(&self, from: Option<Position>) {
        self.checkpoints.hold_for_members(from);
    }

    /// Sets the limit of what the log keeps for other members. A member that needs more copies the data.
    pub fn set_log_held_max(&self, bytes: u64) {
        self.checkpoints.set_held_for_members_max(bytes);
    }

    /// The first position that the log keeps for other members; `None`: it keeps nothing for them.
    pub fn log_held_from(&self) -> Option<Position> {
        self.checkpoints.held_for_members().filter(|from| *from < Position(u64::MAX))
    }

    /// Returns true if writes that need space are refused.
    pub fn is_low_on_space(&self) -> bool {
        self.path.space().is_some_and(crate::Space::is_low)
    }

    /// Returns a snapshot, and a follower that reads every change after it from the log.
    pub fn follow(&self) -> Result<(ReadView, Follower)> {
        let mut follower = self.hold_log();
        let view = self.read()?;
        follower.begin_after(view.position());
        Ok((view, follower))
    }

    /// Holds the whole log; [`Follower::begin_after`] reduces it to what is needed.
    pub(crate) fn hold_log(&self) -> Follower {
        Follower::new(self.checkpoints.holds().clone(), self.path.clone())
    }

    /// The history from a position on, of what the log keeps.
    pub fn history(&self, from: Position) -> History {
        History::new(self.path.clone(), from)
    }

    /// The history from the first record on that has a note at `time` or after it.
    pub fn history_at(&self, time: u64) -> Result<History> {
        Ok(self.history(self.path.position_at(time)?))
    }

    /// Returns the stamp of the last record up to `until` that the history shows and that has one, and the time of its last note.
    pub fn times_until(&self, until: Position) -> Result<Option<(Stamp, u64)>> {
        self.path.times_until(until)
    }

    /// Returns the last position that the history shows: records up to it are visible and on the disk.
    pub fn shown(&self) -> Position {
        self.path.frontier()
    }

    /// Waits until the commit at `position` is on the disk. None: everything that was appended before the call is.
    pub fn make_durable(&self, position: Option<Position>) -> Result<()> {
        let position = position.unwrap_or_else(|| self.log().appended());
        self.path.reach(position, Durability::Journaled)
    }

    /// Like `make_durable`, until a deadline. Returns true if it is on the disk by then; in a set of several members, if the set has it.
    pub fn is_durable_by(&self, position: Option<Position>, deadline: Instant) -> bool {
        let position = position.unwrap_or_else(|| self.log().appended());
        let is_durable = self.log().durable() >= position && !self.path.is_of_set().load(Ordering::Acquire);
        is_durable || self.position_reached(position).wait(deadline)
    }

    /// The moment when the history shows a position. Waiting for one that is visible has the log synced at once.
    pub fn position_reached(&self, position: Position) -> PositionReached {
        self.path.position_reached(position)
    }

    /// Returns the retention of the history; `None` when changes are not noted.
    pub fn retention(&self) -> Option<Retention> {
        self.path.retention()
    }

    /// Sets the retention, from the next checkpoint on. Without effect when changes are not noted.
    pub fn set_retention(&self, retention: Retention) {
        self.path.set_retention(retention);
    }

    /// The time of the last note that was committed, or a later one that was shown.
    pub fn time(&self) -> u64 {
        self.path.clock().last()
    }

    /// The time of the last record that is visible here, on a member of several.
    pub fn applied_time(&self) -> u64 {
        let committed = self.path.lock();
        if committed.in_flight.is_empty() { committed.last_time } else { committed.applied_time }
    }

    /// Returns the position after the last commit, and a time that all later commits are after. None: commits are in flight.
    pub fn settled_time(&self) -> Option<(Position, u64)> {
        let committed = self.path.lock();
        committed.in_flight.is_empty().then(|| (self.path.published().next(), self.path.clock().last()))
    }

    /// The time that clients are shown. None: no history is kept, so times have no meaning.
    pub fn shown_time(&self) -> Option<u64> {
        self.path.keeps_history().then(|| self.time())
    }

    /// Makes the times of all later notes greater than `time`.
    pub fn advance_time(&self, time: u64) {
        self.path.clock().advance(time);
    }

    /// Panics where the positions, what is in flight, what is prepared, or the engine contradict each other: for tests, after each step.
    pub fn validate(&self) {
        let committed = self.path.lock();
        self.path.validate(&committed);
        committed.in_flight.validate();
        self.path.prepared().validate();
        drop(committed);
        self.engine().validate();
    }

    /// Refuses new commits, makes everything durable with a last checkpoint, and closes the log. Snapshots stay
    /// readable. A second call does nothing.
    pub fn close(&self) -> Result<()> {
        self.stop_thread();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        {
            let mut committed = self.path.lock();
            let _still_full = self.path.apply_ready(&mut committed);
            self.path.close();
        }
        let checkpointed = if self.poisoned().is_some() { Ok(()) } else { self.checkpoint_now().map(drop) };
        self.path.forget_states();
        self.path.log().close().map_err(crate::error::log_error)?;
        checkpointed
    }

    fn stop_thread(&self) {
        self.checkpoints.stop();
        // A panic of the thread has been reported by the panic hook.
        let _ = self.thread.lock().take().map(JoinHandle::join);
    }
}

impl Drop for Transactions {
    fn drop(&mut self) {
        self.stop_thread();
    }
}
