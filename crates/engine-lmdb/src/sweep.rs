//! The background thread: deletes the rows of dropped contents in small steps between the batches, and makes a
//! checkpoint when one is asked for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_engine::adapter::Worker;
use arbor_engine::{Error, Result};

use crate::core::Core;
use crate::keys::{Chunk, Content};
use crate::records;
use crate::rows::layer_of;

/// Bounds of one step, which holds the writer up. After it the thread rests at least as long.
const STEP_ROWS: u64 = 2000;
const STEP_TIME: Duration = Duration::from_millis(2);
/// After a step that failed (a full disk).
const REST_AFTER_ERROR: Duration = Duration::from_secs(1);

pub(crate) struct Sweeper {
    _thread: Worker,
    core: Arc<Core>,
}

impl Sweeper {
    pub(crate) fn start(core: &Arc<Core>) -> Result<Sweeper> {
        let worker = core.clone();
        Ok(Sweeper { core: core.clone(), _thread: Worker::start("lmdb-sweep", move || run(&worker))? })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.core.alarm.stop();
    }
}

fn run(core: &Core) {
    loop {
        let requests = core.alarm.take();
        if requests.stop {
            return;
        }
        if requests.checkpoint && core.wants_checkpoint() && core.checkpoint().is_err() {
            // The next `checkpoint` or `apply` of the engine's user returns the same error.
            core.counters.background_errors.fetch_add(1, Ordering::Relaxed);
        }
        if requests.sweep {
            let begin = Instant::now();
            match core.sweep_step() {
                Ok(false) => {}
                Ok(true) => {
                    core.alarm.rest(begin.elapsed());
                    core.alarm.sweep();
                }
                Err(Error::Poisoned { .. }) => {
                    core.counters.background_errors.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => {
                    core.counters.background_errors.fetch_add(1, Ordering::Relaxed);
                    core.alarm.rest(REST_AFTER_ERROR);
                    core.alarm.sweep();
                }
            }
        }
    }
}

impl Core {
    /// Deletes some rows of a dropped content. Returns true if there is more.
    pub(crate) fn sweep_step(&self) -> Result<bool> {
        self.edit(|edit| {
            let Some(content) = records::first_pending_drop(&edit.txn)? else { return Ok(false) };
            let end = content.fence();
            let (mut layers, mut rows, mut finished) = (Vec::new(), 0, true);
            let begin = Instant::now();
            edit.txn.delete_while(content.head().as_slice(), |key, value| {
                if key > end.as_slice() {
                    return Ok(false);
                }
                if rows == STEP_ROWS || begin.elapsed() > STEP_TIME {
                    finished = false;
                    return Ok(false);
                }
                rows += 1;
                layers.extend(layer_below(content, key, value)?);
                Ok(true)
            })?;
            for layer in layers {
                records::put_pending_drop(&mut edit.txn, layer)?;
            }
            if finished {
                records::delete_pending_drop(&mut edit.txn, content)?;
            }
            self.counters.swept_rows.fetch_add(rows, Ordering::Relaxed);
            Ok(true)
        })
    }
}

fn layer_below(content: Content, key: &[u8], value: &[u8]) -> Result<Option<Content>> {
    match key.strip_prefix(content.rows().as_slice()).map(Chunk::of) {
        Some(Chunk::Link(_)) => layer_of(value).map(Some),
        _ => Ok(None),
    }
}
