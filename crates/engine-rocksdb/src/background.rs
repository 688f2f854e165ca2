//! The two threads of an engine: one makes checkpoints, one compacts ranges whose rows are gone.
//!
//! A checkpoint begins when the memtables are full, and [`RECLAIM_AFTER`] a drop or a range delete, because the space
//! returns behind a checkpoint only. Both threads end when the engine is dropped; a compaction that runs is cancelled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arbor_engine::{Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::engine::Core;
use crate::sweep::Span;

const RECLAIM_AFTER: Duration = Duration::from_secs(1);

/// What the first thread is wanted for.
#[derive(Default)]
pub struct Alarm {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    look: bool,
    stop: bool,
}

impl Alarm {
    /// The thread is to look for work.
    pub fn ring(&self) {
        self.wanted.lock().look = true;
        self.changed.notify_one();
    }

    fn stop(&self) {
        self.wanted.lock().stop = true;
        self.changed.notify_one();
    }

    /// Waits until there may be work or the time has come. Answers `false` when the thread is to end.
    fn wait(&self, until: Option<Instant>) -> bool {
        let mut wanted = self.wanted.lock();
        while !(wanted.look || wanted.stop) {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                Some(Duration::ZERO) => break,
                Some(left) => drop(self.changed.wait_for(&mut wanted, left)),
                None => self.changed.wait(&mut wanted),
            }
        }
        wanted.look = false;
        !wanted.stop
    }
}

/// Ranges that wait for the second thread.
#[derive(Default)]
pub struct Compactor {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    spans: VecDeque<Span>,
    stop: bool,
}

impl Compactor {
    pub fn add(&self, span: Span) {
        self.queue.lock().spans.push_back(span);
        self.changed.notify_one();
    }

    fn stop(&self) {
        self.queue.lock().stop = true;
        self.changed.notify_one();
    }

    /// The next range; `None` when the thread is to end.
    fn next(&self) -> Option<Span> {
        let idle = |queue: &mut Queue| queue.spans.is_empty() && !queue.stop;
        let mut queue = self.queue.lock();
        self.changed.wait_while(&mut queue, idle);
        if queue.stop { None } else { queue.spans.pop_front() }
    }
}

/// Stops and joins both when dropped.
pub struct Background {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    pub fn start(core: &Arc<Core>) -> Result<Background> {
        let mut background = Background { core: core.clone(), threads: Vec::new() };
        background.spawn("rocksdb-flush", keep_flushed)?;
        background.spawn("rocksdb-sweep", compact_gone_rows)?;
        Ok(background)
    }

    fn spawn(&mut self, name: &str, run: fn(&Core)) -> Result<()> {
        let core = self.core.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&core))
            .map_err(|source| Error::Io { context: format!("start the thread {name}"), source })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.alarm.stop();
        self.core.compactor.stop();
        self.core.db.cancel_compactions();
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported on its own.
            let _ = thread.join();
        }
    }
}

fn keep_flushed(core: &Core) {
    let mut reclaim_at = None;
    while core.alarm.wait(reclaim_at) {
        let result = match reclaim_at {
            _ if core.wants_checkpoint() => core.checkpoint().map(drop),
            Some(at) if at <= Instant::now() => {
                reclaim_at = None;
                core.reclaim()
            }
            _ => Ok(()),
        };
        if result.is_err() {
            // The next `checkpoint` or `apply` of the engine's user answers the same error.
            core.counters.background_errors.fetch_add(1, Ordering::Relaxed);
        }
        if core.wants_sweep() || core.has_doomed() {
            reclaim_at = reclaim_at.or_else(|| Some(Instant::now() + RECLAIM_AFTER));
        }
    }
}

fn compact_gone_rows(core: &Core) {
    while let Some(span) = core.compactor.next() {
        if core.compact_span(&span, &|| false).is_err() {
            core.counters.background_errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}
