//! The thread that moves the stable generation on between checkpoints (see `checkpoint.rs`): every second while there is
//! something new, and sooner when much was written, so that little of the cache is bound by what is not stable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arbor_engine::{Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::engine::Core;

const EVERY: Duration = Duration::from_secs(1);

/// Part of the cache that may be written before the thread is woken.
const CACHE_PART: u64 = 32;

pub struct Pace {
    wanted: Mutex<Wanted>,
    changed: Condvar,
    written_bytes: AtomicU64,
    wake_bytes: AtomicU64,
}

#[derive(Default)]
struct Wanted {
    now: bool,
    stop: bool,
}

impl Pace {
    pub fn new(cache_bytes: u64) -> Pace {
        let wake_bytes = AtomicU64::new(cache_bytes / CACHE_PART);
        Pace { wanted: Mutex::default(), changed: Condvar::new(), written_bytes: AtomicU64::new(0), wake_bytes }
    }

    pub fn set_cache_bytes(&self, cache_bytes: u64) {
        self.wake_bytes.store(cache_bytes / CACHE_PART, Ordering::Relaxed);
    }

    /// Called by the writer.
    pub fn written(&self, bytes: u64) {
        let total = self.written_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if total >= self.wake_bytes.load(Ordering::Relaxed) {
            self.wanted.lock().now = true;
            self.changed.notify_one();
        }
    }

    /// Waits for the next turn. Answers `false` when the thread is to end.
    fn wait(&self) -> bool {
        let idle = |wanted: &mut Wanted| !(wanted.now || wanted.stop);
        let mut wanted = self.wanted.lock();
        self.changed.wait_while_for(&mut wanted, idle, EVERY);
        wanted.now = false;
        self.written_bytes.store(0, Ordering::Relaxed);
        !wanted.stop
    }
}

pub struct Pacer {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
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
        let thread = std::thread::Builder::new()
            .name("wiredtiger-pace".to_owned())
            .spawn(run)
            .map_err(|source| Error::Io { context: "start the pacer".to_owned(), source })?;
        Ok(Pacer { core: core.clone(), thread: Some(thread) })
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
        self.core.pace.wanted.lock().stop = true;
        self.core.pace.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported on its own.
            let _ = thread.join();
        }
    }
}
