//! The schedule of the thread of [`pacer`](crate::pacer): every second, and sooner when much was written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_engine::adapter::Alarm;

const EVERY: Duration = Duration::from_secs(1);

/// Part of the cache that may be written before the thread is woken.
const CACHE_PART: u64 = 32;

pub(crate) struct Pace {
    alarm: Alarm<Requests>,
    written_bytes: AtomicU64,
    wake_bytes: AtomicU64,
}

#[derive(Default)]
struct Requests {
    now: bool,
    stop: bool,
}

impl Pace {
    pub(crate) fn new(cache_bytes: u64) -> Pace {
        let wake_bytes = AtomicU64::new(cache_bytes / CACHE_PART);
        Pace { alarm: Alarm::default(), written_bytes: AtomicU64::new(0), wake_bytes }
    }

    pub(crate) fn set_cache_bytes(&self, cache_bytes: u64) {
        self.wake_bytes.store(cache_bytes / CACHE_PART, Ordering::Relaxed);
    }

    /// Called by the writer.
    pub(crate) fn written(&self, bytes: u64) {
        let total = self.written_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if total >= self.wake_bytes.load(Ordering::Relaxed) {
            self.alarm.change(|requests| requests.now = true);
        }
    }

    /// Waits for the next turn. Returns `false` when the thread is to end.
    pub(crate) fn wait(&self) -> bool {
        let idle = |requests: &Requests| !(requests.now || requests.stop);
        self.alarm.wait(Some(Instant::now() + EVERY), idle, |requests| {
            requests.now = false;
            self.written_bytes.store(0, Ordering::Relaxed);
            !requests.stop
        })
    }

    pub(crate) fn stop(&self) {
        self.alarm.change(|requests| requests.stop = true);
    }
}
