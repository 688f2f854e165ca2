//! Rests of workers between jobs.
//!
//! A memtable that was absorbed makes work for all workers at once. Done at once, it takes the processors from clients, whose throughput
//! falls for a second. So it is spread over the time until the next memtable is full: a worker rests after a job as long as no more is left
//! than the plan says. There are no rests while a memtable waits, or at a debt that slows writers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::core::Core;
use crate::counters::Counter;

/// Rest after a job, in times of what the job took: a worker works a fifth of its time at least.
const REST: u32 = 4;
/// No rest is longer.
const REST_MAX: Duration = Duration::from_millis(100);
/// Debt from which on there are no rests, since writers are slowed.
const DEBT_MAX: f64 = super::pace::FREE;
/// Like [`DEBT_MAX`], of memory that cannot be evicted as a part of the limit.
const PRESSURE_MAX: f64 = 0.4;

/// Work that a memtable left, and how much had been applied then.
#[derive(Default)]
pub struct Plan {
    debt: AtomicU64,
    applied: AtomicU64,
}

impl Plan {
    /// Begins when a memtable was absorbed. A reader that sees one of the values of before works a job too many or too few.
    fn begin(&self, debt: u64, applied: u64) {
        self.debt.store(debt, Ordering::Relaxed);
        self.applied.store(applied, Ordering::Relaxed);
    }

    /// Returns the bytes that may be left at this number of applied bytes: all at the begin, nothing when another memtable is full.
    fn left(&self, applied: u64, memtable_bytes: u64) -> u64 {
        let since = applied.saturating_sub(self.applied.load(Ordering::Relaxed)).min(memtable_bytes);
        debug_assert!(since <= memtable_bytes, "{since} bytes of a memtable of {memtable_bytes}");
        let part = 1.0 - since as f64 / memtable_bytes.max(1) as f64;
        (self.debt.load(Ordering::Relaxed) as f64 * part) as u64
    }
}

impl Core {
    pub(super) fn begin_plan(&self) {
        self.work.plan.begin(self.work.debt.bytes(), self.io.counters.get(Counter::AppliedBytes));
    }

    /// Returns how long a worker rests after a job. Takes no lock that a writer holds while it waits for workers.
    pub(super) fn rest(&self, took: Duration) -> Duration {
        let applied = self.io.counters.get(Counter::AppliedBytes);
        let is_late = self.work.debt.bytes() > self.work.plan.left(applied, self.options.memtable_bytes);
        if is_late
            || !self.backlog.is_empty()
            || self.flush_debt() >= DEBT_MAX
            || self.io.cache.pressure() >= PRESSURE_MAX
        {
            return Duration::ZERO;
        }
        (took * REST).min(REST_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_falls_with_what_is_applied() {
        let plan = Plan::default();
        assert_eq!(plan.left(0, 1000), 0, "nothing was planned");
        plan.begin(400, 5000);
        for (applied, left) in [(5000, 400), (5250, 300), (5500, 200), (6000, 0), (9000, 0), (4000, 400)] {
            assert_eq!(plan.left(applied, 1000), left, "{applied} bytes applied");
        }
    }
}
