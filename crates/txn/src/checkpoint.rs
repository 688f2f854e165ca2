//! The thread that moves the replay point forward, and watches the space on the device.
//!
//! A checkpoint: the log is made durable up to its end, the engine makes its state durable, the log is trimmed up to it
//! (except what is held for its other readers, and the history that is to be kept). The log comes first, so that the engine does not
//! survive a power failure at a position that the log never reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arbor_base::Position;
use parking_lot::{Condvar, Mutex};

use crate::commit::CommitPath;
use crate::error::log_error;
use crate::fetch::marker::Syncing;
use crate::follower::LogHolds;
use crate::{Error, Result, Space};

/// Interval at which the thread checks the time, the log bytes and the free space.
const TICK: Duration = Duration::from_secs(1);

/// Time between checkpoints while there is little space.
const LOW_DISTANCE: Duration = Duration::from_secs(2);

/// Statistics of checkpoints since the start.
#[derive(Clone, Debug, Default)]
pub struct CheckpointStats {
    pub count: u64,
    pub last_duration: Duration,
    pub total_duration: Duration,
    pub last_position: Position,
    /// Text of the last failure; a later success clears it.
    pub error: Option<String>,
}

/// Part of the log that other members of the set still fetch.
#[derive(Clone, Copy, Debug, Default)]
struct MemberHold {
    from: Option<Position>,
    bytes_max: u64,
}

pub(crate) struct Checkpoints {
    path: Arc<CommitPath>,
    /// Positions of the log's other readers.
    members: Mutex<MemberHold>,
    holds: Arc<LogHolds>,
    /// One checkpoint at a time; the last checkpointed position.
    running: Mutex<Position>,
    stats: Mutex<CheckpointStats>,
    /// A checkpoint starts at the latest after this time with new commits.
    interval_ms: AtomicU64,
    stop: Mutex<bool>,
    wake: Condvar,
}

fn in_ms(interval: Duration) -> u64 {
    u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)
}

impl Checkpoints {
    pub(crate) fn new(path: Arc<CommitPath>) -> Checkpoints {
        Checkpoints {
            running: Mutex::new(path.engine().durable()),
            interval_ms: AtomicU64::new(in_ms(path.options().checkpoint_interval)),
            path,
            holds: Arc::default(),
            members: Mutex::default(),
            stats: Mutex::default(),
            stop: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let own = self.clone();
        std::thread::Builder::new().name("checkpoint".into()).spawn(move || own.run())
    }

    pub(crate) fn stop(&self) {
        *self.stop.lock() = true;
        self.wake.notify_all();
    }

    pub(crate) fn holds(&self) -> &Arc<LogHolds> {
        &self.holds
    }

    pub(crate) fn hold_for_members(&self, from: Option<Position>) {
        self.members.lock().from = from;
    }

    pub(crate) fn set_held_for_members_max(&self, bytes: u64) {
        self.members.lock().bytes_max = bytes;
    }

    /// The first position that the log keeps for other members, in whole segments of no more bytes than the limit.
    pub(crate) fn held_for_members(&self) -> Option<Position> {
        let MemberHold { from, bytes_max } = *self.members.lock();
        let from = from?;
        let mut bytes = 0;
        let segments = self.path.log().segments();
        let newest = segments.iter().rev().take_while(|(_, size)| {
            bytes += size;
            bytes <= bytes_max
        });
        let oldest = newest.last().map_or(Position(u64::MAX), |(first, _)| *first);
        Some(from.max(oldest))
    }

    pub(crate) fn stats(&self) -> CheckpointStats {
        self.stats.lock().clone()
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn set_interval(&self, interval: Duration) {
        self.interval_ms.store(in_ms(interval), Ordering::Relaxed);
    }

    fn run(&self) {
        let mut last = Instant::now();
        let mut stop = self.stop.lock();
        while !*stop {
            self.wake.wait_for(&mut stop, TICK);
            if *stop {
                break;
            }
            drop(stop);
            self.watch_space();
            self.path.hold_states();
            if self.is_due(last) {
                let _kept_in_stats = self.checkpoint();
                last = Instant::now();
            }
            stop = self.stop.lock();
        }
    }

    fn is_due(&self, last: Instant) -> bool {
        let options = self.path.options();
        let changed = self.path.engine().applied() > *self.running.lock();
        let full = self.path.log_bytes().load(Ordering::Relaxed) >= options.checkpoint_log_bytes;
        let narrow = |space: &Space| {
            space.wants_checkpoint() || self.path.log_bytes().load(Ordering::Relaxed) >= space.log_bytes_max()
        };
        let low = self.path.space().is_some_and(narrow) && last.elapsed() >= LOW_DISTANCE;
        low || changed && (full || last.elapsed() >= self.interval())
    }

    /// Refuses writes while space is low, and tries to apply what waits for it.
    pub(crate) fn watch_space(&self) {
        if let Some(space) = self.path.space() {
            space.watch(|| self.path.engine().stats().map_or(0, |stats| stats.free_bytes));
        }
        self.path.retry_pending();
    }

    pub(crate) fn checkpoint(&self) -> Result<Position> {
        let mut running = self.running.lock();
        let began = Instant::now();
        self.path.log_bytes().store(0, Ordering::Relaxed);
        let mut result = self.checkpoint_once();
        if matches!(result, Err(Error::OutOfSpace { .. })) && self.path.space_exhausted() {
            result = self.checkpoint_once();
        }
        let mut stats = self.stats.lock();
        match &result {
            Ok(position) => {
                assert!(*running <= *position, "a checkpoint at {position} follows one at {running}");
                *running = *position;
                stats.count += 1;
                stats.last_duration = began.elapsed();
                stats.total_duration += began.elapsed();
                stats.last_position = *position;
                stats.error = None;
            }
            Err(error) => stats.error = Some(error.to_string()),
        }
        result
    }

    fn checkpoint_once(&self) -> Result<Position> {
        let (log, engine) = (self.path.log(), self.path.engine());
        if self.path.lock().syncing == Syncing::Needed {
            // Engine and log are of two states.
            return Ok(engine.durable());
        }
        log.wait_durable(log.appended()).map_err(log_error)?;
        let position = engine.checkpoint().map_err(Error::from)?;
        // What the engine keeps durably must be in the log durably, else a power failure leaves records that never were.
        let (kept, logged) = (engine.durable(), log.durable());
        assert!(kept <= logged, "the engine is durable up to {kept:?}, the log up to {logged:?}");
        assert!(position <= log.appended(), "a checkpoint at {position:?} after the end of the log");
        self.path.hold_state();
        let low = self.path.space().filter(|space| space.is_low());
        if low.is_some() {
            // The segment that is written to now can be removed by the next checkpoint.
            log.roll().map_err(log_error)?;
        }
        let needed = engine.durable().next().min(self.holds.oldest());
        let first = log.first();
        let kept = needed.min(self.path.history_floor(needed)?);
        log.trim(kept.min(self.held_for_members().unwrap_or(kept))).map_err(log_error)?;
        let trimmed = log.first();
        assert!(trimmed <= first.max(needed), "R1: the log begins at {trimmed} and is needed from {needed} on");
        low.iter().for_each(|space| space.checkpointed());
        Ok(position)
    }
}
