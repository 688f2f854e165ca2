//! The two threads of an engine: one makes checkpoints, one compacts ranges whose rows are gone.
//!
//! A checkpoint begins when the memtables are full, and [`RECLAIM_AFTER`] a drop or a range delete, because the space
//! returns after a checkpoint only. Both threads end when the engine is dropped; a compaction that runs is cancelled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_engine::Result;
use arbor_engine::adapter::{self, Worker};

use crate::engine::Core;
use crate::sweep::Span;

const RECLAIM_AFTER: Duration = Duration::from_secs(1);

/// Wakes the first thread.
#[derive(Default)]
pub struct Alarm(adapter::Alarm<Requests>);

#[derive(Default)]
struct Requests {
    look: bool,
    stop: bool,
}

impl Alarm {
    /// The thread is to look for work.
    pub fn ring(&self) {
        self.0.change(|requests| requests.look = true);
    }

    fn stop(&self) {
        self.0.change(|requests| requests.stop = true);
    }

    /// Waits until there may be work or the time has come. Returns `false` when the thread is to end.
    fn wait(&self, until: Option<Instant>) -> bool {
        self.0.wait(
            until,
            |requests| !(requests.look || requests.stop),
            |requests| {
                requests.look = false;
                !requests.stop
            },
        )
    }
}

/// Ranges that wait for the second thread.
#[derive(Default)]
pub struct Compactor(adapter::Alarm<Queue>);

#[derive(Default)]
struct Queue {
    spans: VecDeque<Span>,
    stop: bool,
}

impl Compactor {
    pub fn add(&self, span: Span) {
        self.0.change(|queue| queue.spans.push_back(span));
    }

    fn stop(&self) {
        self.0.change(|queue| queue.stop = true);
    }

    /// The next range; `None` when the thread is to end.
    fn next(&self) -> Option<Span> {
        let idle = |queue: &Queue| queue.spans.is_empty() && !queue.stop;
        self.0.wait(None, idle, |queue| if queue.stop { None } else { queue.spans.pop_front() })
    }
}

/// Stops and joins both when dropped.
pub struct Background {
    _threads: [Worker; 2],
    core: Arc<Core>,
}

impl Background {
    pub fn start(core: &Arc<Core>) -> Result<Background> {
        let worker = |name, run: fn(&Core)| {
            let core = core.clone();
            Worker::start(name, move || run(&core))
        };
        let flushes = worker("rocksdb-flush", keep_flushed)?;
        // Where the second one does not start, the first ends before it is joined.
        let sweeps = worker("rocksdb-sweep", compact_gone_rows).inspect_err(|_| core.alarm.stop())?;
        Ok(Background { core: core.clone(), _threads: [flushes, sweeps] })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.alarm.stop();
        self.core.compactor.stop();
        self.core.db.cancel_compactions();
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
            // The next `checkpoint` or `apply` of the engine's user returns the same error.
            core.counters.background_errors.fetch_add(1, Ordering::Relaxed);
        }
        if core.wants_sweep() || core.has_pending_drops() {
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
