//! The latch of one collection: statements that write hold it shared, changes of its catalogue entry exclusively.
//!
//! Guards own what they guard, so that they can be kept in a statement or a transaction and moved between threads.
//! A waiting exclusive holder keeps new shared ones out; so a thread must not take it shared twice.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{ArcRwLockReadGuard, ArcRwLockWriteGuard, RawRwLock, RwLock};

#[derive(Clone, Debug, Default)]
pub(crate) struct Latch(Arc<RwLock<()>>);

pub(crate) type SharedGuard = ArcRwLockReadGuard<RawRwLock, ()>;

pub(crate) type ExclusiveGuard = ArcRwLockWriteGuard<RawRwLock, ()>;

impl Latch {
    /// Returns true if both are the latch of the same collection.
    pub(crate) fn is(&self, other: &Latch) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn read(&self) -> SharedGuard {
        self.0.read_arc()
    }

    pub(crate) fn write(&self) -> ExclusiveGuard {
        self.0.write_arc()
    }

    /// Returns true if some thread holds it exclusively.
    pub(crate) fn is_held_exclusively(&self) -> bool {
        self.0.is_locked_exclusive()
    }

    /// Gives up after `patience`, so that shared lockers do not wait long for another long holder.
    pub(crate) fn write_within(&self, patience: Duration) -> Option<ExclusiveGuard> {
        self.0.try_write_arc_for(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_lets_the_others_through() {
        let latch = Latch::default();
        let shared = latch.read();
        assert!(latch.write_within(Duration::from_millis(1)).is_none());
        drop(latch.read());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| latch.write_within(Duration::from_secs(60)).is_some());
            // Until the exclusive one waits, which keeps new shared ones out.
            while latch.0.try_read().is_some() {
                std::thread::yield_now();
            }
            drop(shared);
            assert!(waiting.join().unwrap());
        });
        drop(latch.read());
    }

    #[test]
    fn a_guard_can_be_released_by_another_thread() {
        let latch = Latch::default();
        let exclusive = latch.write();
        std::thread::scope(|scope| drop(scope.spawn(move || drop(exclusive))));
        drop(latch.read());
    }
}
