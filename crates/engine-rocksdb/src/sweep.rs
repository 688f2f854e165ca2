//! The space of dropped trees, and the background thread.
//!
//! A dropped tree leaves a doomed content. Its files can be removed when the drop is durable (the removal is, at once)
//! and no snapshot from before the drop is held (the removal does not ask for snapshots). So it is done at the end of a
//! checkpoint: whole files go, a range tombstone covers the rows in shared files and memtables, and at the checkpoint
//! after that, when the tombstone is in a file, RocksDB is asked to compact the range.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use arbor_engine::{Error, Result};

use crate::engine::Core;
use crate::raw::WriteBatch;
use crate::records::{self, Content};

impl Core {
    /// Requires: a checkpoint was just made, and no other is being made.
    pub(crate) fn sweep(&self) -> Result<()> {
        let mut covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        for content in covered.drain(..) {
            self.db.suggest_compaction(content)?;
        }
        for content in self.removable() {
            self.db.delete_files(content)?;
            self.cover(content)?;
            covered.push(content);
        }
        Ok(())
    }

    fn removable(&self) -> Vec<Content> {
        let durable = self.flushed_generation.load(Ordering::Acquire);
        let ready = |generation: u64| generation <= durable && !self.published.held_before(generation);
        let book = self.lock_book();
        book.doomed.iter().filter(|(_, generation)| ready(*generation)).map(|(content, _)| *content).collect()
    }

    /// Covers what is left of a content. The state stays the same, so this needs no new generation.
    fn cover(&self, content: Content) -> Result<()> {
        let mut book = self.lock_book();
        if let Some(reason) = &book.poisoned {
            return Err(Error::Poisoned { context: reason.clone() });
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(&content.prefix(), &content.end());
        records::delete_doomed(&mut batch, content);
        self.db.write(&batch).map_err(|error| self.judge(&mut book, error))?;
        book.dirty = true;
        book.doomed.retain(|(doomed, _)| *doomed != content);
        self.counters.swept_trees.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// What the thread is wanted for.
#[derive(Default)]
pub struct Alarm {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    checkpoint: bool,
    stop: bool,
}

impl Alarm {
    pub fn checkpoint(&self) {
        self.lock().checkpoint = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a checkpoint is wanted. Answers `false` when the thread is to end.
    fn wait(&self) -> bool {
        let idle = |wanted: &mut Wanted| !(wanted.checkpoint || wanted.stop);
        let mut wanted = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        wanted.checkpoint = false;
        !wanted.stop
    }
}

/// Makes the checkpoints that the writer asks for.
pub struct Flusher {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub fn start(core: &Arc<Core>) -> Result<Flusher> {
        let worker = core.clone();
        let run = move || {
            while worker.alarm.wait() {
                if worker.wants_checkpoint() && worker.checkpoint().is_err() {
                    // The next `checkpoint` or `apply` of the engine's user answers the same error.
                    worker.counters.background_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("rocksdb-flush".to_owned())
            .spawn(run)
            .map_err(|source| Error::Io { context: "start the flusher".to_owned(), source })?;
        Ok(Flusher { core: core.clone(), thread: Some(thread) })
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.core.alarm.lock().stop = true;
        self.core.alarm.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported on its own.
            let _ = thread.join();
        }
    }
}
