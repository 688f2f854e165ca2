//! Requests that run on a network worker and wait for a device.
//!
//! A worker that waits holds up its other connections, and to hand those to another thread at each wait
//! ([`arbor_base::aside`]) costs more than to run all requests on threads of their own, where many of them wait. So every
//! `SAMPLE`-th request on a worker is observed by the counts that the kernel keeps of its thread, and for a while
//! requests run off the workers when
//! - a share of those observed gave up their processor: reads of a disk, locks;
//! - one of them had a major page fault: a memory-mapped tree blocks its thread without saying so. While requests off the
//!   workers fault too, the others follow them.
//!
//! PERF: YCSB C larger than memory, 64 clients on 2 processors, off the workers and on them: docs/performance.md,
//! "Reads that wait".

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};

/// One read of the counts takes about 0.3 us, so two in this many requests are lost in the noise of a request.
const SAMPLE: u32 = 16;

/// Observed requests of which the share is taken,
const WINDOW: u32 = 32;
/// and those of them that waited from which on requests are away.
const WAITED_MIN: u32 = WINDOW / 4;

/// Time for which requests stay off the workers after the last sign of waiting.
const AWAY_MS: u64 = 250;

pub(crate) struct WaitWatch {
    start: Instant,
    /// Milliseconds since `start` until which requests run off the workers; 0 = they never waited.
    away_until_ms: AtomicU64,
    /// Milliseconds since `start` until which workers may have submitted reads that are not complete; 0 = they never have.
    submitted_until_ms: AtomicU64,
    /// Requests observed since the last window, and in the upper half those of them that waited.
    window: AtomicU32,
}

thread_local! {
    static REQUESTS: Cell<u32> = const { Cell::new(0) };
    /// Major faults when they were read last, -1 before.
    static FAULTS: Cell<i64> = const { Cell::new(-1) };
}

/// Counts of a thread since it began.
#[derive(Clone, Copy)]
struct Counts {
    major_faults: i64,
    waits: i64,
}

impl WaitWatch {
    pub(crate) fn new() -> WaitWatch {
        WaitWatch {
            start: Instant::now(),
            away_until_ms: AtomicU64::new(0),
            submitted_until_ms: AtomicU64::new(0),
            window: AtomicU32::new(0),
        }
    }

    /// Returns true if requests should avoid the network workers now.
    pub(crate) fn is_away(&self) -> bool {
        self.is_before(&self.away_until_ms)
    }

    /// Returns true if workers have submitted reads of requests lately.
    pub(crate) fn has_submitted(&self) -> bool {
        self.is_before(&self.submitted_until_ms)
    }

    fn is_before(&self, until_ms: &AtomicU64) -> bool {
        let until = until_ms.load(Ordering::Relaxed);
        until != 0 && self.now_ms() < until
    }

    /// Runs a request on a worker.
    pub(crate) fn on_worker<T>(&self, work: impl FnOnce() -> T) -> T {
        let requests = REQUESTS.get().wrapping_add(1);
        REQUESTS.set(requests);
        if !requests.is_multiple_of(SAMPLE) {
            return work();
        }
        let before = Counts::read();
        let outcome = work();
        let after = Counts::read();
        // A fault of the requests that are not observed counts too.
        let known = FAULTS.replace(after.major_faults);
        self.note(after.waits > before.waits, known >= 0 && after.major_faults > known);
        outcome
    }

    /// Counts a request whose reads are done before it begins, as one that waits on its worker or not.
    pub(crate) fn note_prefetch(&self, would_wait: bool) {
        if would_wait {
            self.submitted_until_ms.store(self.now_ms() + AWAY_MS, Ordering::Relaxed);
        }
        let requests = REQUESTS.get().wrapping_add(1);
        REQUESTS.set(requests);
        if requests.is_multiple_of(SAMPLE) {
            self.note(would_wait, false);
        }
    }

    /// Runs a request that was moved off the workers. If it has a page fault as well, requests stay there.
    pub(crate) fn off_worker<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = Counts::read().major_faults;
        let outcome = work();
        if Counts::read().major_faults > before {
            self.stay_away();
        }
        outcome
    }

    /// Counts an observed request.
    fn note(&self, waited: bool, faulted: bool) {
        let one = 1 + (u32::from(waited) << 16);
        let window = self.window.fetch_add(one, Ordering::Relaxed).wrapping_add(one);
        let (observed, waited) = (window & 0xffff, window >> 16);
        debug_assert!(waited <= observed, "{waited} of {observed} observed requests waited");
        if observed >= WINDOW {
            self.window.store(0, Ordering::Relaxed);
        }
        if faulted || (observed >= WINDOW && waited >= WAITED_MIN) {
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

impl Counts {
    fn read() -> Counts {
        let of = |usage: Usage| Counts {
            major_faults: usage.major_page_faults(),
            waits: usage.voluntary_context_switches(),
        };
        getrusage(UsageWho::RUSAGE_THREAD).map_or(Counts { major_faults: 0, waits: 0 }, of)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    /// Observes windows of requests, of which the first few wait.
    fn observe(watch: &WaitWatch, windows: u32, waited: u32) {
        (0..windows * WINDOW).for_each(|at| watch.note(at % WINDOW < waited, false));
    }

    #[test]
    fn a_share_of_requests_that_wait_moves_requests_away_for_a_while() {
        let watch = WaitWatch::new();
        observe(&watch, 3, WAITED_MIN - 1);
        assert!(!watch.is_away(), "a few that wait hand the worker over");
        (1..WINDOW).for_each(|_| watch.note(true, false));
        assert!(!watch.is_away(), "no share of a part of a window");
        watch.note(false, false);
        assert!(watch.is_away());
        watch.away_until_ms.store(0, Ordering::Relaxed);
        observe(&watch, 1, 0);
        assert!(!watch.is_away(), "a window counts once");
        observe(&watch, 1, WAITED_MIN);
        assert!(watch.is_away());
    }

    #[test]
    fn one_fault_moves_requests_away() {
        let watch = WaitWatch::new();
        watch.note(false, true);
        assert!(watch.is_away());
    }

    #[test]
    fn a_request_that_waits_is_seen_and_one_that_computes_is_not() {
        let watch = WaitWatch::new();
        let waited = || watch.window.load(Ordering::Relaxed) >> 16;
        (0..SAMPLE).for_each(|_| watch.on_worker(|| ()));
        assert_eq!((watch.window.load(Ordering::Relaxed) & 0xffff, waited()), (1, 0));
        (0..SAMPLE).for_each(|_| watch.on_worker(|| std::thread::sleep(Duration::from_millis(1))));
        assert_eq!((watch.window.load(Ordering::Relaxed) & 0xffff, waited()), (2, 1));
        // A lock that is free is no reason to wait.
        let lock = Mutex::new(0);
        (0..SAMPLE).for_each(|_| watch.on_worker(|| *lock.lock().unwrap() += 1));
        assert_eq!(waited(), 1);
    }
}
