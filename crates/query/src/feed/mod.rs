//! The feed of committed records: the log is read once for all followers.
//!
//! ```text
//! log ──> txn::History ──> Feed::run (one thread) ──> the newest records, decoded
//!                                                 └─> subscriptions of interest are hit, and woken
//! ```
//!
//! A follower keeps a position and a [`Subscription`]. While nothing that interests it is committed the feed only moves
//! on; the follower is neither woken nor does it read unrelated records: a thousand idle change streams cost nothing
//! but their timeouts. A follower that has fallen behind the records kept here reads the log directly ([`Follow`]).
//!
//! | file | holds |
//! |---|---|
//! | `arrival.rs` | [`Arrival`]: one decoded record |
//! | `subscription.rs`, `subscribers.rs` | [`Subscription`]: interest, and waiting |
//! | `follow.rs` | [`Follow`]: the records from a position on, wherever they are |
//!
//! F1: every record after a subscriber's position that interests it is at or after the position where it was hit.
//! F2: without subscribers nothing is read and nothing kept.

mod arrival;
mod follow;
mod subscribers;
mod subscription;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_txn::{History, Transactions, View};
use parking_lot::{Condvar, Mutex, RwLock};

pub use arrival::{Arrival, damaged};
pub use follow::{Follow, Next};
use subscribers::Subscribers;
use subscription::Waiter;
pub use subscription::{Interest, Subscription, WakeHandle, Woken};

use crate::Result;

/// Maximum size of the records that are kept...
const KEPT_BYTES_MAX: usize = 16 << 20;
/// ...and their maximum number.
const KEPT_RECORDS_MAX: usize = 8192;
/// Maximum sleep of the thread at a time while nothing is committed.
const NAP: Duration = Duration::from_secs(1);
/// Upper bound of the time until a commit is on disk.
const SYNC_MAX: Duration = Duration::from_secs(10);
/// Maximum time for which a batch that has events waits for the thread.
const LAG_MAX: Duration = Duration::from_millis(250);
/// Maximum number of records handed out under one lock.
const TAKEN_MAX: usize = 256;

/// Names the deployment in resume tokens: those of another one are refused.
pub type DeploymentId = [u8; 12];

/// Shared by all connections.
pub struct Feed {
    transactions: Arc<Transactions>,
    state: Mutex<State>,
    /// There is a subscriber, or the end has come.
    begun: Condvar,
    /// The thread has read on.
    read_on: Condvar,
    deployment: RwLock<DeploymentId>,
}

#[derive(Default)]
struct State {
    subscribers: Subscribers,
    /// The thread reads, and what follows is true.
    active: bool,
    /// After the last record that was read.
    tail: Position,
    /// The time of that record; 0 before the first one.
    time: u64,
    kept: VecDeque<Arc<Arrival>>,
    kept_bytes: usize,
    /// All records with events from here up to the tail are kept.
    kept_from: Position,
    stopped: bool,
}

/// Next records of a follower.
enum FeedBatch {
    /// These, and nothing else before `upto`; `time` is that of the last record before it, if the feed knows it.
    Records { records: Vec<Arc<Arrival>>, upto: Position, time: Option<u64> },
    /// The feed has forgotten the records from this position on: they must be read from the log.
    Forgotten(Position),
}

impl Feed {
    pub fn new(transactions: Arc<Transactions>) -> Arc<Feed> {
        let (begun, read_on) = (Condvar::new(), Condvar::new());
        Arc::new(Feed { transactions, state: Mutex::default(), begun, read_on, deployment: RwLock::default() })
    }

    pub fn transactions(&self) -> &Arc<Transactions> {
        &self.transactions
    }

    pub fn set_deployment(&self, id: DeploymentId) {
        *self.deployment.write() = id;
    }

    pub fn deployment(&self) -> DeploymentId {
        *self.deployment.read()
    }

    /// The work of the feed's thread; returns after [`Feed::stop`].
    pub fn run(&self) {
        while let Some(from) = self.wait_for_subscriber() {
            self.follow(self.transactions.history(from));
        }
    }

    /// Ends the thread, and wakes all waiters.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.begun.notify_all();
        self.wake_all();
    }

    /// Wakes all waiters: something happened that is not in the log (a cursor or an operation was killed).
    pub fn wake_all(&self) {
        let waiters = self.state.lock().subscribers.all();
        waiters.iter().for_each(|waiter| waiter.interrupt());
    }

    /// Returns the position after the last commit, and the time of its record.
    pub fn now(&self) -> Result<(Position, u64)> {
        let next = self.readable_end()?;
        let last = self.transactions.history(Position(next.0 - 1)).read()?;
        let time = last.map_or(0, |(_, record)| record.last_time());
        Ok((next, if time > 0 || next == Position(1) { time } else { self.transactions.time() }))
    }

    /// Returns the position after the last commit, once the history shows it.
    pub fn readable_end(&self) -> Result<Position> {
        let published = self.transactions.read()?.position();
        if published > Position::default() {
            self.transactions.history(published).wait(Instant::now() + SYNC_MAX);
        }
        Ok(published.next())
    }

    /// Subscribes to all records of interest from `from` on.
    fn subscribe(self: &Arc<Self>, interest: Interest, from: Position) -> Result<Subscription> {
        let waiter = Arc::new(Waiter::new(interest, from));
        let end = if self.state.lock().active { None } else { Some(self.readable_end()?) };
        let mut state = self.state.lock();
        match end {
            Some(end) => self.activate(&mut state, end),
            None if state.active => {}
            // it fell asleep a moment ago
            None => self.activate(&mut state, self.readable_end()?),
        }
        state.subscribers.add(waiter.clone());
        Ok(Subscription::new(self.clone(), waiter))
    }

    fn unsubscribe(&self, waiter: &Arc<Waiter>) {
        self.state.lock().subscribers.remove(waiter);
    }

    /// The thread begins to read at `end`, unless it reads already.
    fn activate(&self, state: &mut State, end: Position) {
        if !state.active {
            (state.active, state.tail, state.kept_from, state.time) = (true, end, end, 0);
            self.begun.notify_all();
        }
    }

    /// Stops reading; later requests are served from the log.
    fn deactivate(state: &mut State) {
        state.active = false;
        state.kept.clear();
        state.kept_bytes = 0;
    }

    /// Blocks until the feed is to read; returns the start position. None: it is stopped.
    fn wait_for_subscriber(&self) -> Option<Position> {
        let mut state = self.state.lock();
        while !state.stopped && !state.active {
            self.begun.wait(&mut state);
        }
        (!state.stopped).then_some(state.tail)
    }

    fn follow(&self, mut history: History) {
        loop {
            match history.read() {
                Ok(Some((position, record))) => {
                    if !self.publish(Arrival::new(position, &history, record)) {
                        return;
                    }
                }
                Ok(None) if self.rest() => return,
                Ok(None) => {
                    let begun = Instant::now();
                    if !history.wait(begun + NAP) && begun.elapsed() < NAP / 2 {
                        // the log is closed
                        std::thread::sleep(NAP / 20);
                    }
                }
                Err(_) => return self.give_up(),
            }
        }
    }

    /// Returns true if the thread has nothing to do any more.
    fn rest(&self) -> bool {
        let mut state = self.state.lock();
        if state.subscribers.is_empty() {
            Feed::deactivate(&mut state);
        }
        !state.active || state.stopped
    }

    /// Gives up because the log cannot be read: the followers are to read it themselves, and get the error.
    fn give_up(&self) {
        let mut state = self.state.lock();
        Feed::deactivate(&mut state);
        let all = state.subscribers.all();
        all.iter().for_each(|waiter| waiter.mark(state.tail));
        drop(state);
        all.iter().for_each(|waiter| waiter.wake());
    }

    /// Returns true if the thread continues.
    fn publish(&self, arrival: Arrival) -> bool {
        let mut state = self.state.lock();
        if state.subscribers.is_empty() {
            Feed::deactivate(&mut state);
            return false;
        }
        state.tail = arrival.next;
        state.time = arrival.last_time();
        let mut concerned = Vec::new();
        if arrival.has_events() {
            concerned = state.subscribers.concerned(&arrival);
            concerned.iter().for_each(|waiter| waiter.mark(arrival.position));
            state.keep(Arc::new(arrival));
        }
        let continues = state.active && !state.stopped;
        self.read_on.notify_all();
        drop(state);
        concerned.iter().for_each(|waiter| waiter.wake());
        continues
    }

    /// Returns the next records of the follower at position `from`.
    fn take(&self, waiter: &Waiter, from: Position) -> Result<FeedBatch> {
        let mut state = self.state.lock();
        if !state.active {
            self.activate(&mut state, self.readable_end()?);
            waiter.mark(from);
        }
        let end = |state: &State| match from >= state.tail {
            true => (from, None),
            false => (state.tail, Some(state.time)),
        };
        let Some(hit) = waiter.hit_at() else {
            let (upto, time) = end(&state);
            return Ok(FeedBatch::Records { records: Vec::new(), upto, time });
        };
        let start = from.max(hit);
        if start < state.kept_from {
            return Ok(FeedBatch::Forgotten(start));
        }
        let first = state.kept.partition_point(|arrival| arrival.position < start);
        let mut interesting =
            state.kept.iter().skip(first).filter(|arrival| waiter.interest.covers(arrival)).peekable();
        let records: Vec<_> = interesting.by_ref().take(TAKEN_MAX).cloned().collect();
        let (upto, time) = match interesting.peek() {
            Some(next) => {
                waiter.mark_again(next.position);
                (next.position, records.last().map(|last| last.last_time()))
            }
            None => {
                waiter.clear();
                end(&state)
            }
        };
        Ok(FeedBatch::Records { records, upto, time })
    }

    /// Waits a short time until the thread has read everything before a position; returns true if it has.
    fn wait_until_read(&self, position: Position) -> bool {
        let deadline = Instant::now() + LAG_MAX;
        let mut state = self.state.lock();
        while state.active && !state.stopped && state.tail < position {
            if self.read_on.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.tail >= position
    }

    /// Returns true if everything from this position on is kept here.
    fn keeps(&self, position: Position) -> bool {
        let state = self.state.lock();
        state.active && position >= state.kept_from
    }
}

impl State {
    fn keep(&mut self, arrival: Arc<Arrival>) {
        self.kept_bytes += arrival.size_bytes();
        self.kept.push_back(arrival);
        while self.kept_bytes > KEPT_BYTES_MAX || self.kept.len() > KEPT_RECORDS_MAX {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.kept_bytes -= oldest.size_bytes();
            self.kept_from = oldest.next;
        }
    }
}
