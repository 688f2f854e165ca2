//! Memory shares of the jobs under way.
//!
//! A job says how much it may hold and waits until that fits next to the others. A job that runs alone always fits, and
//! no job that has a share waits for another one, so some job always continues.

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub struct Shares {
    taken: Mutex<u64>,
    freed: Condvar,
}

/// Released when it is dropped.
pub struct Share<'s> {
    shares: &'s Shares,
    bytes: u64,
}

impl Shares {
    /// Waits until `bytes` fit next to what others have, `most` in all, or no thread has anything. Requires: the thread has none.
    pub fn take(&self, bytes: u64, most: u64) -> Share<'_> {
        // So that one that takes nothing counts as well.
        let bytes = bytes.max(1);
        let full = |taken: &mut u64| *taken > 0 && taken.saturating_add(bytes) > most;
        let mut taken = self.taken.lock();
        self.freed.wait_while(&mut taken, full);
        *taken += bytes;
        Share { shares: self, bytes }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        debug_assert!(*taken >= self.bytes, "{taken} are taken, {} of them here", self.bytes);
        *taken -= self.bytes;
        drop(taken);
        self.shares.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn jobs_together_stay_below_the_most_and_one_always_runs() {
        let (shares, running, most_seen) = (Shares::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (shares, running, most_seen) = (&shares, &running, &most_seen);
                scope.spawn(move || {
                    for round in 0..200u64 {
                        // Some are larger than all that there is.
                        let bytes = (thread * 7 + round) % 13 * 10;
                        let _share = shares.take(bytes, 100);
                        let others = running.fetch_add(bytes, Ordering::SeqCst);
                        if others > 0 {
                            most_seen.fetch_max(others + bytes, Ordering::SeqCst);
                        }
                        std::thread::yield_now();
                        running.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most_seen.into_inner() <= 100);
        assert_eq!(*shares.taken.lock(), 0);
    }
}
