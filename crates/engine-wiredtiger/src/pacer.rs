//! The thread that moves the stable generation on between checkpoints (see `checkpoint.rs`): every second while there is
//! something new, and sooner when much was written, so that little of the cache is bound by what is not stable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_engine::Result;
use arbor_engine::adapter::Worker;

use crate::core::Core;

pub(crate) struct Pacer {
    _thread: Worker,
    core: Arc<Core>,
}

impl Pacer {
    pub(crate) fn start(core: &Arc<Core>) -> Result<Pacer> {
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
        self.core.pace.stop();
    }
}
