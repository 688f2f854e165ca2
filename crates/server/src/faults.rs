//! Page faults of requests that run on a network worker.
//!
//! A read of a memory-mapped tree blocks its thread without saying so when a page has to come from disk. The kernel
//! counts such major faults per thread. Every `SAMPLE`-th inline request reads the count; while it rises, requests run
//! on the blocking pool instead, where a disk wait does not block other connections.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

/// One read of the count takes about 0.3 us, so a sixteenth of it is lost in the noise of a request.
const SAMPLE: u32 = 16;

/// Time for which requests stay on the pool after the last major fault was seen.
const AWAY_MS: u64 = 250;

pub(crate) struct FaultWatch {
    start: Instant,
    /// Milliseconds since `start` until which requests run on the pool; 0 = never faulted.
    away_until_ms: AtomicU64,
}

thread_local! {
    static REQUESTS: Cell<u32> = const { Cell::new(0) };
    static FAULTS: Cell<i64> = const { Cell::new(-1) };
}

impl FaultWatch {
    pub(crate) fn new() -> FaultWatch {
        FaultWatch { start: Instant::now(), away_until_ms: AtomicU64::new(0) }
    }

    /// Returns true if requests should avoid the network workers now.
    pub(crate) fn is_away(&self) -> bool {
        let until = self.away_until_ms.load(Ordering::Relaxed);
        until != 0 && self.now_ms() < until
    }

    /// Called after each request that ran on a worker.
    pub(crate) fn ran_inline(&self) {
        let requests = REQUESTS.get().wrapping_add(1);
        REQUESTS.set(requests);
        if requests.is_multiple_of(SAMPLE) {
            self.look();
        }
    }

    /// Runs a request that was moved to the pool because of faults; if it faults as well, requests stay there.
    pub(crate) fn watching<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = major_faults();
        let outcome = work();
        if major_faults() > before {
            self.stay_away();
        }
        outcome
    }

    fn look(&self) {
        let faults = major_faults();
        let before = FAULTS.replace(faults);
        if before >= 0 && faults > before {
            self.stay_away();
        }
    }

    fn stay_away(&self) {
        self.away_until_ms.store(self.now_ms() + AWAY_MS, Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

/// Major faults of this thread since it began.
fn major_faults() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.major_page_faults())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_moves_requests_away_for_a_while() {
        let watch = FaultWatch::new();
        assert!(!watch.is_away());
        FAULTS.set(0);
        watch.look();
        assert_eq!(watch.is_away(), major_faults() > 0);
        watch.away_until_ms.store(watch.now_ms() + 1000, Ordering::Relaxed);
        assert!(watch.is_away());
        watch.away_until_ms.store(0, Ordering::Relaxed);
        (0..SAMPLE * 2).for_each(|_| watch.ran_inline());
        assert!(!watch.is_away(), "no fault happened between the looks");
    }
}
