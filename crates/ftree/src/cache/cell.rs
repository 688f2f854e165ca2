//! The place of one thing that may be in memory or not.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;

use super::{Charge, Evicted};

/// Empty, or full with a value and its charge. Eight bytes when empty.
pub struct Cell<T> {
    place: ArcSwapOption<Cached<T>>,
}

/// A value with its part of the budget.
pub struct Cached<T> {
    value: T,
    /// Since the queue last passed by.
    used: AtomicBool,
    _charge: Charge,
}

/// A value that is being read. It stays valid when the cell is emptied meanwhile.
pub struct Guard<T> {
    cached: arc_swap::Guard<Option<Arc<Cached<T>>>>,
}

impl<T> Default for Cell<T> {
    fn default() -> Cell<T> {
        Cell { place: ArcSwapOption::empty() }
    }
}

impl<T> Cell<T> {
    /// The value, marked as used.
    pub fn get(&self) -> Option<Guard<T>> {
        let guard = self.peek()?;
        guard.touch();
        Some(guard)
    }

    /// The value, without marking it as used.
    pub fn peek(&self) -> Option<Guard<T>> {
        let cached = self.place.load();
        cached.is_some().then(|| Guard { cached })
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
        let cached = Arc::new(Cached { value, used: AtomicBool::new(false), _charge: charge });
        let before = self.place.swap(Some(cached.clone()));
        (Guard { cached: arc_swap::Guard::from_inner(Some(cached)) }, before.is_none())
    }

    /// Empties the cell unless it was used since the last call. For [`super::Evictable`] only (M3).
    pub fn evict(&self) -> Evicted {
        let current = self.place.load();
        let Some(cached) = current.as_ref() else { return Evicted::Gone };
        if cached.used.swap(false, Ordering::Relaxed) {
            return Evicted::InUse;
        }
        let before = self.place.compare_and_swap(&*current, None);
        let same = before.as_ref().is_some_and(|before| Arc::ptr_eq(before, cached));
        debug_assert!(before.is_some(), "M3: only the holder of the queue's entry empties the cell");
        if same { Evicted::Freed } else { Evicted::InUse }
    }

    pub fn is_empty(&self) -> bool {
        self.place.load().is_none()
    }
}

impl<T> Guard<T> {
    /// For holding on to the value: takes none of the few places that make short guards cheap.
    pub fn settled(self) -> Guard<T> {
        let cached = arc_swap::Guard::into_inner(self.cached);
        Guard { cached: arc_swap::Guard::from_inner(cached) }
    }

    fn touch(&self) {
        if let Some(cached) = self.cached.as_ref().filter(|cached| !cached.used.load(Ordering::Relaxed)) {
            cached.used.store(true, Ordering::Relaxed);
        }
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.cached.as_ref().expect("a guard is made of a full cell").value
    }
}
