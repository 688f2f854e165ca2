//! Interest in what is committed, and waiting for it without a thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use arbor_base::Position;
use parking_lot::Mutex;

use super::{Arrival, Feed};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    Everything,
    Database(String),
    Collection(String, String),
}

impl Interest {
    /// A change of the catalogue interests every subscriber: it may concern a collection under another name.
    pub fn covers(&self, arrival: &Arrival) -> bool {
        arrival.changes_catalogue()
            || match self {
                Interest::Everything => true,
                Interest::Database(db) => arrival.places().any(|(own, _)| own == db),
                Interest::Collection(db, name) => arrival.places().any(|place| place == (db.as_str(), name.as_str())),
            }
    }
}

const NOT_HIT: u64 = u64::MAX;

/// One subscriber, as the feed knows it.
pub(super) struct Waiter {
    pub interest: Interest,
    /// The first record of interest that was not taken; changed under the feed's lock.
    hit: AtomicU64,
    interrupted: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Waiter {
    /// A subscriber to everything from `from` on.
    pub(super) fn new(interest: Interest, from: Position) -> Waiter {
        Waiter { interest, hit: AtomicU64::new(from.0), interrupted: AtomicBool::new(false), waker: Mutex::default() }
    }

    pub(super) fn hit_at(&self) -> Option<Position> {
        let hit = self.hit.load(Ordering::Acquire);
        (hit != NOT_HIT).then_some(Position(hit))
    }

    pub(super) fn mark(&self, at: Position) {
        self.hit.fetch_min(at.0, Ordering::AcqRel);
    }

    pub(super) fn mark_again(&self, at: Position) {
        self.hit.store(at.0, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        self.hit.store(NOT_HIT, Ordering::Release);
    }

    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn wake(&self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_ready(&self) -> bool {
        self.hit_at().is_some() || self.interrupted.swap(false, Ordering::AcqRel)
    }
}

/// Belongs to one follower; dropped with it.
pub struct Subscription {
    pub(super) feed: Arc<Feed>,
    pub(super) waiter: Arc<Waiter>,
}

impl Subscription {
    pub(super) fn new(feed: Arc<Feed>, waiter: Arc<Waiter>) -> Subscription {
        Subscription { feed, waiter }
    }

    /// Resolves once there are records to read, or after a kill. One at a time.
    pub fn woken(&self) -> Woken {
        Woken { waiter: self.waiter.clone(), at_once: false }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.unsubscribe(&self.waiter);
    }
}

/// Wakes one follower out of turn.
pub struct WakeHandle(Arc<Waiter>);

impl WakeHandle {
    pub fn wake(&self) {
        self.0.interrupt();
    }
}

/// See [`Subscription::woken`].
pub struct Woken {
    waiter: Arc<Waiter>,
    at_once: bool,
}

impl Future for Woken {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.at_once || self.waiter.is_ready() {
            return Poll::Ready(());
        }
        *self.waiter.waker.lock() = Some(context.waker().clone());
        // it may have come between the check and the registration
        if self.waiter.is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Woken {
    pub fn handle(&self) -> WakeHandle {
        WakeHandle(self.waiter.clone())
    }

    /// Resolves at once if `at_once`, as there are records to read already.
    pub(crate) fn or_at_once(self, at_once: bool) -> Woken {
        Woken { at_once: self.at_once || at_once, ..self }
    }

    /// Blocks the thread instead, at the longest until `deadline`; says whether it was woken.
    pub fn wait(mut self, deadline: Instant) -> bool {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if Pin::new(&mut self).poll(&mut context).is_ready() {
                return true;
            }
            match deadline.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return false,
                left => std::thread::park_timeout(left),
            }
        }
    }
}
