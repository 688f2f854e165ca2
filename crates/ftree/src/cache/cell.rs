//! The place of one thing that may be in memory or not.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use super::hazard::{Counted, Place, Reading};
use super::{Charge, Evicted};

/// Empty, or full with a value and its charge. Eight bytes when empty.
pub struct Cell<T> {
    place: Place<Cached<T>>,
}

/// A value with its part of the budget.
struct Cached<T> {
    value: T,
    /// Since the queue last passed by.
    used: AtomicBool,
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
    /// The value, marked as used.
    #[inline]
    pub fn get(&self) -> Option<Guard<T>> {
        let guard = self.peek()?;
        guard.touch();
        Some(guard)
    }

    /// The value, without marking it as used.
    #[inline]
    pub fn peek(&self) -> Option<Guard<T>> {
        self.place.read().map(|cached| Guard { cached })
    }

    /// Fills the cell. True when it was empty: the caller then admits it to the cache (M3).
    #[must_use]
    pub fn put(&self, value: T, charge: Charge) -> bool {
        self.put_and_get(value, charge).1
    }

    /// Like `put`, and hands out what was put.
    #[must_use]
    pub fn put_and_get(&self, value: T, mut charge: Charge) -> (Guard<T>, bool) {
        charge.unpin();
        let cached = Counted::new(Cached { value, used: AtomicBool::new(false), _charge: charge });
        let was_empty = self.place.put(cached.clone());
        (Guard { cached: Reading::of(cached) }, was_empty)
    }

    /// Empties the cell unless it was used since the last call. For [`super::Evictable`] only (M3).
    pub fn evict(&self) -> Evicted {
        let Some(cached) = self.place.read() else { return Evicted::Gone };
        if cached.used.swap(false, Ordering::Relaxed) {
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
        if !self.cached.used.load(Ordering::Relaxed) {
            self.cached.used.store(true, Ordering::Relaxed);
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
