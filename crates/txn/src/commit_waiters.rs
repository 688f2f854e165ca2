//! Waiting for the next records of the history.
//!
//! A waiter registers the position that it waits for, and costs nothing until then; a thread that moves the frontier (a leader that
//! publishes, a sync that ends) wakes the waiters that it passes. Without waiters, a commit reads one counter.
//!
//! H1: a waiter registers before it reads the published position, a leader publishes before it checks for waiters, with a full
//! fence between the two. So either the waiter sees the commit or the leader sees the waiter. The same holds for a sync that
//! ends. `commit_waiters_model.rs` tries all orders.

#[cfg(all(test, loom))]
#[path = "commit_waiters_model.rs"]
mod model;

/// The primitives, which loom replaces where it tries all interleavings.
mod sync {
    #[cfg(loom)]
    pub(super) use loom::sync::{Mutex, MutexGuard, atomic};
    #[cfg(not(loom))]
    pub(super) use parking_lot::{Mutex, MutexGuard};
    #[cfg(not(loom))]
    pub(super) use std::sync::atomic;

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        #[cfg(loom)]
        return mutex.lock().expect("a panic ends the model");
        #[cfg(not(loom))]
        return mutex.lock();
    }
}

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use arbor_base::Position;
use arbor_log::Log;

use self::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use self::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
use self::sync::{Mutex, MutexGuard};

pub(crate) struct CommitWaiters {
    /// Position that new snapshots show at least.
    published: AtomicU64,
    /// Durable position of the log; it may lag behind the log's own.
    durable: AtomicU64,
    /// Number of waiters; changed under the lock.
    waiting: AtomicUsize,
    /// A sync was asked for and has not ended yet.
    sync_asked: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reached: Position,
    waiters: BTreeMap<(Position, u64), Waker>,
    next_id: u64,
    closed: bool,
}

impl CommitWaiters {
    pub(crate) fn new(published: Position, durable: Position) -> CommitWaiters {
        CommitWaiters {
            published: AtomicU64::new(published.0),
            durable: AtomicU64::new(durable.0),
            waiting: AtomicUsize::new(0),
            sync_asked: AtomicBool::new(false),
            state: Mutex::new(State::default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    pub(crate) fn published(&self) -> Position {
        Position(self.published.load(Acquire))
    }

    /// Returns the last position that the history shows: records up to it are visible and on the disk.
    pub(crate) fn frontier(&self) -> Position {
        self.published().min(Position(self.durable.load(Acquire)))
    }

    /// Publishes a position, which must not be before an earlier one. Returns true if the log is to be synced now.
    #[must_use]
    pub(crate) fn publish(&self, position: Position) -> bool {
        let before = self.published.swap(position.0, AcqRel);
        assert!(before <= position.0, "{position:?} is published after {before}");
        self.has_waiters() && self.wake_reached()
    }

    /// Records the end of a sync. Returns true if another one is needed now.
    #[must_use]
    pub(crate) fn synced(&self, durable: Position) -> bool {
        self.durable.fetch_max(durable.0, AcqRel);
        self.sync_asked.store(false, Release);
        self.has_waiters() && self.wake_reached()
    }

    /// Returns how many wait. One that was woken does not, until it registers again.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Called after a change of the positions that waiters check.
    fn has_waiters(&self) -> bool {
        fence(SeqCst);
        self.waiting.load(Relaxed) > 0
    }

    /// Wakes the waiters that the frontier has passed. Returns true if a sync is to be requested, for those that wait for a
    /// visible position.
    fn wake_reached(&self) -> bool {
        // For a waiter that has just registered.
        fence(SeqCst);
        let (published, frontier) = (self.published(), self.frontier());
        let (passed, first) = {
            let mut state = self.lock();
            state.reached = state.reached.max(frontier);
            let next = state.reached.next();
            let later = state.waiters.split_off(&(next, 0));
            let passed = std::mem::replace(&mut state.waiters, later);
            debug_assert!(passed.keys().all(|(position, _)| *position <= state.reached), "a waiter is woken too early");
            self.waiting.store(state.waiters.len(), Relaxed);
            (passed, state.waiters.first_key_value().map(|((position, _), _)| *position))
        };
        passed.into_values().for_each(Waker::wake);
        first.is_some_and(|first| first <= published) && !self.sync_asked.swap(true, AcqRel)
    }

    /// Has all waiters look again at what they wait for.
    pub(crate) fn interrupt(&self) {
        let waiters = {
            let mut state = self.lock();
            self.waiting.store(0, Relaxed);
            std::mem::take(&mut state.waiters)
        };
        waiters.into_values().for_each(Waker::wake);
    }

    /// Records of the log were cut off; none of them was published.
    pub(crate) fn lower(&self, durable: Position) {
        self.durable.fetch_min(durable.0, AcqRel);
    }

    /// Ends all waiting: no commits follow. Waiters wake, and new ones do not wait.
    pub(crate) fn close(&self) {
        let waiters = {
            let mut state = self.lock();
            state.closed = true;
            self.waiting.store(0, Relaxed);
            std::mem::take(&mut state.waiters)
        };
        waiters.into_values().for_each(Waker::wake);
    }

    /// Registers the waker, in the place of the one with this number. Returns true if the caller has to wait.
    fn register(&self, position: Position, number: &mut Option<u64>, waker: &Waker) -> bool {
        let mut state = self.lock();
        if state.closed || state.reached >= position {
            return false;
        }
        let id = *number.get_or_insert_with(|| {
            state.next_id += 1;
            state.next_id
        });
        state.waiters.insert((position, id), waker.clone());
        self.waiting.store(state.waiters.len(), Relaxed);
        true
    }

    fn forget(&self, position: Position, number: u64) {
        let mut state = self.lock();
        state.waiters.remove(&(position, number));
        self.waiting.store(state.waiters.len(), Relaxed);
    }
}

/// A future that ends when the history shows a position. Its output is true if it does (else the store was closed).
pub struct PositionReached {
    waiters: Arc<CommitWaiters>,
    log: Arc<Log>,
    position: Position,
    number: Option<u64>,
}

impl PositionReached {
    pub(crate) fn new(waiters: Arc<CommitWaiters>, log: Arc<Log>, position: Position) -> PositionReached {
        PositionReached { waiters, log, position, number: None }
    }

    fn is_reached(&self) -> bool {
        self.waiters.frontier() >= self.position
    }

    /// Blocks the thread until then, or until the deadline; returns true if the history shows the position.
    pub fn wait(mut self, deadline: Instant) -> bool {
        let waker = Waker::from(Arc::new(Parked(std::thread::current())));
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.is_reached();
            }
            if let Poll::Ready(shown) = Pin::new(&mut self).poll(&mut Context::from_waker(&waker)) {
                return shown;
            }
            std::thread::park_timeout(left);
        }
    }
}

impl PositionReached {
    /// Blocks the thread until the history shows the position, or until the deadline, or until `stop`, which is asked again after each
    /// [`CommitWaiters::interrupt`].
    pub(crate) fn wait_unless(mut self, deadline: Option<Instant>, stop: impl Fn() -> bool) {
        let waker = Waker::from(Arc::new(Parked(std::thread::current())));
        loop {
            // H2: registered before it asks, so that an interruption after the answer wakes it.
            let ready = Pin::new(&mut self).poll(&mut Context::from_waker(&waker)).is_ready();
            if ready || stop() {
                return;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(left) if left.is_zero() => return,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

impl Future for PositionReached {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        if self.is_reached() {
            return Poll::Ready(true);
        }
        let PositionReached { waiters, log, position, number } = &mut *self;
        if !waiters.register(*position, number, context.waker()) {
            return Poll::Ready(self.is_reached());
        }
        // H1
        if waiters.wake_reached() {
            log.request_sync();
        }
        match self.is_reached() {
            true => Poll::Ready(true),
            false => Poll::Pending,
        }
    }
}

impl Drop for PositionReached {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.waiters.forget(self.position, number);
        }
    }
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
