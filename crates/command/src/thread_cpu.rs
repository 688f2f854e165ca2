//! The CPU time of the thread that runs an operation, for `cpuNanos` of the slow log and the profiler.
//!
//! PERF: the clock is a system call of 0.9 us on a virtual machine (2026-11-25), a tenth of a point query, and hardly any operation is
//! logged. So the time at which an operation begins may be read up to [`STALE`] before it, and is shared by the operations of that time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The largest error of `cpuNanos` unless exact times are requested.
const STALE: Duration = Duration::from_millis(1);

thread_local! {
    static LAST: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
}

/// Returns the nanoseconds of CPU time that this thread has used.
pub(crate) fn nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the CPU time of this thread at `begun`, or up to [`STALE`] before it unless `exact`.
pub(crate) fn nanos_at(begun: Instant, exact: bool) -> u64 {
    if let Some((at, nanos)) = LAST.get()
        && !exact
        && begun.saturating_duration_since(at) < STALE
    {
        return nanos;
    }
    let nanos = nanos();
    LAST.set(Some((begun, nanos)));
    nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_shared_for_a_millisecond() {
        let begun = Instant::now();
        let first = nanos_at(begun, false);
        while nanos() < first + 10_000 {}
        assert_eq!(nanos_at(begun + STALE / 2, false), first);
        let exact = nanos_at(begun + STALE / 2, true);
        assert!(exact >= first + 10_000, "{first} {exact}");
        while nanos() < exact + 10_000 {}
        assert!(nanos_at(begun + 2 * STALE, false) >= exact + 10_000);
    }
}
