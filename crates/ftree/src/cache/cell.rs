//! The place of one thing that may be in memory or not.

use std::ops::Deref;
use std::sync::atomic::{AtomicU8, Ordering};

use super::hazard::{Counted, Place, Reading};
use super::{Charge, Evicted};

/// Uses that a value remembers at most.
pub(super) const USES_MAX: u8 = 3;
/// Instead of uses: the use for which the value was put has not come yet.
const AHEAD: u8 = u8::MAX;

/// Empty, or full with a value and its charge. Eight bytes when empty.
pub struct Cell<T> {
    place: Place<Cached<T>>,
}

/// A value with its part of the budget.
struct Cached<T> {
    value: T,
    /// Uses after the one that it was put for, less the times that the queue has passed by, or [`AHEAD`]. Threads that use it at
    /// once may be counted as one.
    uses: AtomicU8,
    _charge: Charge,
}

/// A value that is being read. It stays valid when the cell is emptied meanwhile.
pub struct Guard<T> {
    cached: Reading<Cached<T>>,
}

impl<T> Default for Cell<T> {
    fn default() -> Cell<T> {
        Cell { place: Place::default() }
    }
}

impl<T> Cell<T> {
    /// The value. Counts as a use.
    #[inline]
    pub fn get(&self) -> Option<Guard<T>> {
        let guard = self.peek()?;
        guard.touch();
        Some(guard)
    }

    /// The value. Does not count as a use.
    #[inline]
    pub fn peek(&self) -> Option<Guard<T>> {
        self.place.read().map(|cached| Guard { cached })
    }

    /// Fills the cell for a use that is made now. True when it was empty: the caller then admits it to the cache (M3).
    #[must_use]
    pub fn put(&self, value: T, charge: Charge) -> bool {
        self.put_and_get(value, charge).1
    }

    /// Like `put`, and hands out what was put.
    #[must_use]
    pub fn put_and_get(&self, value: T, charge: Charge) -> (Guard<T>, bool) {
        self.put_with_uses(value, charge, 0)
    }

    /// Like `put_and_get`, for a use that is still to come: the first [`Cell::get`] does not count.
    #[must_use]
    pub fn put_ahead(&self, value: T, charge: Charge) -> (Guard<T>, bool) {
        self.put_with_uses(value, charge, AHEAD)
    }

    fn put_with_uses(&self, value: T, mut charge: Charge, uses: u8) -> (Guard<T>, bool) {
        charge.unpin();
        let cached = Counted::new(Cached { value, uses: AtomicU8::new(uses), _charge: charge });
        let was_empty = self.place.put(cached.clone());
        (Guard { cached: Reading::of(cached) }, was_empty)
    }

    /// Empties the cell, or takes one of its uses away. For [`super::Evictable`] only (M3).
    pub fn evict(&self) -> Evicted {
        let Some(cached) = self.place.read() else { return Evicted::Gone };
        if let uses @ 1..=USES_MAX = cached.uses.load(Ordering::Relaxed) {
            cached.uses.store(uses - 1, Ordering::Relaxed);
            return Evicted::InUse;
        }
        let same = self.place.remove(&cached);
        debug_assert!(same || !self.is_empty(), "M3: only the holder of the queue's entry empties the cell");
        if same { Evicted::Freed } else { Evicted::InUse }
    }

    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }
}

impl<T> Guard<T> {
    /// For holding on to the value: takes none of the few slots that make short guards cheap.
    pub fn settled(self) -> Guard<T> {
        Guard { cached: self.cached.settled() }
    }

    #[inline]
    fn touch(&self) {
        let uses = &self.cached.uses;
        match uses.load(Ordering::Relaxed) {
            USES_MAX => {}
            AHEAD => uses.store(0, Ordering::Relaxed),
            fewer => uses.store(fewer + 1, Ordering::Relaxed),
        }
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.cached.value
    }
}
