//! Parts of a budget that are taken, until they are dropped.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Budget, Class, STEP_BYTES};

/// Interval at which a waiting thread retries.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Memory that its owner may hold. Released when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: &'static Budget,
    class: Class,
    bytes: usize,
}

/// Reserved bytes whose owner waits for more, until it is dropped.
struct Waiting {
    budget: &'static Budget,
    bytes: u64,
}

impl Waiting {
    fn new(budget: &'static Budget, bytes: u64) -> Waiting {
        budget.waiting.fetch_add(bytes, Ordering::Relaxed);
        Waiting { budget, bytes }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let before = self.budget.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "{before} bytes wait, {} end", self.bytes);
    }
}

/// Whole steps; what is smaller than one is free.
fn steps(bytes: usize) -> usize {
    if bytes <= STEP_BYTES { 0 } else { bytes.next_multiple_of(STEP_BYTES) }
}

impl Reservation {
    pub(super) fn new(budget: &'static Budget, class: Class) -> Reservation {
        Reservation { budget, class, bytes: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn budget(&self) -> &'static Budget {
        self.budget
    }

    /// Adds what another one of the same budget and class holds.
    pub fn absorb(&mut self, mut other: Reservation) {
        assert!(std::ptr::eq(self.budget, other.budget) && self.class == other.class, "B1: {self:?} and {other:?}");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Grows to at least `bytes`, for an owner that can do with less. False: it has its share, or there is no more.
    #[inline]
    pub fn try_cover(&mut self, bytes: usize) -> bool {
        let requested = steps(bytes);
        requested <= self.bytes || self.grow(requested, |left| left >= requested as u64, true)
    }

    /// Grows to at least `bytes`, for an owner that needs all of it. False: there is no more.
    pub fn try_cover_all(&mut self, bytes: usize) -> bool {
        let requested = steps(bytes);
        requested <= self.bytes || self.grow(requested, |_| true, false)
    }

    /// Like [`Reservation::try_cover_all`], but blocks the thread until there is enough memory, or nothing else is reserved, at most for
    /// `timeout`.
    pub fn wait_for_all(&mut self, bytes: usize, timeout: Duration) -> bool {
        self.wait_for_all_while(bytes, 0, timeout, || true)
    }

    /// Like [`Reservation::wait_for_all`], but gives up when `may_wait` is false, which is asked every few milliseconds. `own`: bytes of other
    /// reservations that are held until this wait has ended, like the one of the message that it is done for.
    pub fn wait_for_all_while(
        &mut self,
        bytes: usize,
        own: usize,
        timeout: Duration,
        may_wait: impl Fn() -> bool,
    ) -> bool {
        let begun = Instant::now();
        // two statements that wait to be alone would wait for each other's messages
        let _waiting = Waiting::new(self.budget, own as u64);
        while !self.try_cover_all(bytes) {
            if self.cover_alone(bytes) {
                self.budget.wait_for_rows_beyond(may_wait);
                return true;
            }
            if begun.elapsed() >= timeout || !may_wait() {
                return false;
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        true
    }

    /// Grows to at least `bytes` if only what others hold that wait is reserved besides: waiting longer would not help.
    fn cover_alone(&mut self, bytes: usize) -> bool {
        let requested = steps(bytes);
        let is_alone = self.budget.take_alone(self.class, self.bytes as u64, (requested - self.bytes) as u64);
        if is_alone {
            self.bytes = requested;
        }
        is_alone
    }

    /// Grows to at least `bytes`, for what is there already.
    pub fn cover(&mut self, bytes: usize) {
        let requested = steps(bytes);
        if let Some(more) = requested.checked_sub(self.bytes).filter(|more| *more > 0) {
            self.budget.force(self.class, more as u64);
            self.bytes = requested;
        }
    }

    /// Releases all but what `bytes` need.
    pub fn shrink_to(&mut self, bytes: usize) {
        let requested = steps(bytes);
        if let Some(less) = self.bytes.checked_sub(requested).filter(|less| *less > 0) {
            self.budget.release(self.class, less as u64);
            self.bytes = requested;
        }
    }

    /// Grows or shrinks to what `bytes` need, for what is there already.
    pub fn set(&mut self, bytes: usize) {
        self.shrink_to(bytes);
        self.cover(bytes);
    }

    #[cold]
    fn grow(&mut self, requested: usize, share: impl Fn(u64) -> bool, can_do_with_less: bool) -> bool {
        let more = (requested - self.bytes) as u64;
        if !self.budget.take(self.class, more, share) {
            return false;
        }
        // messages and replies are reserved where no thread may wait
        let waits = !matches!(self.class, Class::Message | Class::Reply);
        if waits && !self.budget.wait_for_caches() && can_do_with_less {
            self.budget.release(self.class, more);
            return false;
        }
        self.bytes = requested;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// The memory of work that spills, or is refused, beyond it: limited by a bound of its own and by its share of the budget.
#[derive(Debug)]
pub struct Allowance {
    reservation: Reservation,
    bytes_max: usize,
}

impl Allowance {
    pub(super) fn new(reservation: Reservation, bytes_max: usize) -> Allowance {
        Allowance { reservation, bytes_max }
    }

    /// Returns true if the work may hold `bytes` now.
    #[inline]
    pub fn covers(&mut self, bytes: usize) -> bool {
        bytes <= self.bytes_max && self.reservation.try_cover(bytes)
    }

    /// The work has spilled or dropped what it held.
    pub fn release(&mut self) {
        self.reservation.shrink_to(0);
    }

    /// The bound that refused `bytes`, for the text of an error: its own, or that of the process.
    pub fn bytes_max(&self, bytes: usize) -> u64 {
        let limit = self.reservation.budget.limit().filter(|_| bytes <= self.bytes_max);
        limit.unwrap_or(self.bytes_max as u64)
    }

    /// Returns true if it holds more than work may keep that waits for its client.
    pub fn is_too_large_to_idle(&self) -> bool {
        self.granted() as u64 > self.reservation.budget.idle_bytes_max()
    }

    /// Returns the bytes granted so far.
    pub fn granted(&self) -> usize {
        self.reservation.bytes()
    }
}
