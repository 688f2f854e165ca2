//! Memory for large messages and replies.
//!
//! A message may be 48 MB long, and a client may send it slowly or never read the reply. So what is longer than
//! [`FREE_BYTES`](crate::frame::FREE_BYTES) is read only once its memory is reserved in the budget of the process; until then it stays in the
//! socket, and the client waits. Those that wait for memory have it in turn. While somebody waits, who holds memory has to be
//! quick: [`Limits::hurry`] instead of the usual patience.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arbor_base::memory::{Budget, Class, Reservation};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::Limits;
use crate::frame::FREE_BYTES;

/// A message up to this size does not queue behind larger ones while there is memory for it.
const QUEUED_BYTES_MIN: usize = 1 << 20;

/// Memory of a running message as a multiple of its own bytes: documents in a write set, on their way to the log, and in the
/// engine; one transaction of a statement takes up to 32 MB of them.
const RUNNING_COPIES: usize = 2;
const RUNNING_BYTES_MAX: usize = 32 << 20;

/// Interval at which a waiter checks for memory.
const LOOK: Duration = Duration::from_millis(5);

/// Interval at which a holder of memory checks for waiters.
pub(crate) const ASK: Duration = Duration::from_secs(1);

/// Shared by all connections.
#[derive(Debug)]
pub(crate) struct Admission {
    budget: &'static Budget,
    /// Held by the message whose turn it is.
    turn: Mutex<()>,
    waiting: AtomicUsize,
}

/// No memory came free in time.
#[derive(Debug)]
pub(crate) struct NoMemory;

impl Admission {
    pub(crate) fn new(budget: &'static Budget) -> Admission {
        Admission { budget, turn: Mutex::new(()), waiting: AtomicUsize::new(0) }
    }

    pub(crate) fn reservation(&self, class: Class) -> Reservation {
        self.budget.reservation(class)
    }

    /// Returns true if a frame alone takes more than the whole budget has for reservations. It is not received at all.
    pub(crate) fn is_too_large(&self, frame_bytes: usize) -> bool {
        frame_bytes as u64 > self.bytes_max()
    }

    /// Returns the length of the longest message that is let in.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.budget.room_max()
    }

    /// Reserves the memory of a message, as soon as there is as much. A message that fits, but not together with what running
    /// it takes, is let in alone.
    pub(crate) async fn admit(
        &self,
        held: &mut Reservation,
        frame_bytes: usize,
        until: Instant,
    ) -> Result<(), NoMemory> {
        debug_assert!(!self.is_too_large(frame_bytes), "a frame that is not to be received");
        let bytes = frame_bytes + RUNNING_COPIES * frame_bytes.min(RUNNING_BYTES_MAX);
        let may_pass = frame_bytes <= QUEUED_BYTES_MIN || self.waiting.load(Ordering::Relaxed) == 0;
        if may_pass && held.try_cover_all(bytes) {
            return Ok(());
        }
        let _waiting = Waiting::begin(&self.waiting);
        let _turn = timeout_at(until, self.turn.lock()).await.map_err(|_| NoMemory)?;
        while !held.try_cover_all(bytes) {
            if self.budget.held(Class::Message) == 0 {
                held.cover(bytes);
                break;
            }
            if Instant::now() >= until {
                return Err(NoMemory);
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Returns the time allowed for a transfer of `bytes`, which began with its memory reserved.
    pub(crate) fn patience(&self, limits: &Limits, bytes: usize) -> Duration {
        let is_scarce = self.waiting.load(Ordering::Relaxed) > 0 || self.budget.is_scarce();
        if bytes > FREE_BYTES && is_scarce { limits.hurry(bytes) } else { limits.frame_time(bytes) }
    }
}

/// Counts who waits, however the wait ends.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn begin(count: &AtomicUsize) -> Waiting<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
