//! The thread that moves the stable generation on between checkpoints (see `checkpoint.rs`): every second while there is
//! something new, and sooner when much was written, so that little of the cache is bound by what is not stable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_engine::Result;
use arbor_engine::adapter::{Alarm, Worker};

use crate::engine::Core;

const EVERY: Duration = Duration::from_secs(1);

/// Part of the cache that may be written before the thread is woken.
const CACHE_PART: u64 = 32;

pub struct Pace {
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
    pub fn new(cache_bytes: u64) -> Pace {
        let wake_bytes = AtomicU64::new(cache_bytes / CACHE_PART);
        Pace { alarm: Alarm::default(), written_bytes: AtomicU64::new(0), wake_bytes }
    }

    pub fn set_cache_bytes(&self, cache_bytes: u64) {
        self.wake_bytes.store(cache_bytes / CACHE_PART, Ordering::Relaxed);
    }

    /// Called by the writer.
    pub fn written(&self, bytes: u64) {
        let total = self.written_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if total >= self.wake_bytes.load(Ordering::Relaxed) {
            self.alarm.change(|requests| requests.now = true);
        }
    }

    /// Waits for the next turn. Answers `false` when the thread is to end.
    fn wait(&self) -> bool {
        let idle = |requests: &Requests| !(requests.now || requests.stop);
        self.alarm.wait(Some(Instant::now() + EVERY), idle, |requests| {
            requests.now = false;
            self.written_bytes.store(0, Ordering::Relaxed);
            !requests.stop
        })
    }
}

pub struct Pacer {
    _thread: Worker,
    core: Arc<Core>,
}

impl Pacer {
    pub fn start(core: &Arc<Core>) -> Result<Pacer> {
        let worker = core.clone();
        let run = move || {
            while worker.pace.wait() {
                // If the log fails, the next checkpoint says so.
                if worker.moved_on() && worker.stabilize().is_err() {
                    worker.counters.background_errors.fetch_add(1, Ordering::Relaxed);
                }
                if worker.shrink_cache().is_err() {
                    worker.counters.background_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        Ok(Pacer { core: core.clone(), _thread: Worker::start("wiredtiger-pace", run)? })
    }
}

impl Core {
    fn moved_on(&self) -> bool {
        let stable = self.stable.lock().generation;
        self.published.committed().generation > stable
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.core.pace.alarm.change(|requests| requests.stop = true);
    }
}
