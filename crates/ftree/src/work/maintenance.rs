//! Maintenance thread: checkpoints, dropped trees, retries when space was short, cleaning while nothing is written.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::Seq;
use crate::core::Core;
use crate::counters::Counter;
use crate::work::PoisonOnPanic;
use crate::work::idle::Idle;

const TICK: Duration = Duration::from_millis(50);
/// So long after much was deleted its space comes back.
const RETURN: Duration = Duration::from_millis(1000);
/// Delay between two tries to continue without space.
const RETRY: Duration = Duration::from_millis(200);
/// Time after the last write after which slots are cleaned, `CLEANED_AT_ONCE` at a time.
const IDLE: Duration = Duration::from_millis(1000);
const CLEANED_AT_ONCE: usize = 8;
const CLEANING: Duration = Duration::from_millis(200);
/// Blocks that readers load in a second from which on they have the disk first: one slot is cleaned at once.
const LOADS_OF_READERS: u64 = 500;
/// Time without a write after which the memtable is absorbed, if there were more than `SNAPSHOTS_MIN` snapshots since.
const PAUSE: Duration = Duration::from_millis(250);
const SNAPSHOTS_MIN: u64 = 20;

/// State of the maintenance thread from tick to tick.
pub(super) struct Maintenance {
    visible: Seq,
    written: Instant,
    checkpointed: Instant,
    retried: Instant,
    /// Time at which slots were cleaned, or were found clean.
    cleaned: Instant,
    /// Blocks that readers had loaded then.
    loaded: u64,
    /// Snapshots that had been made when the last write was seen.
    snapshots: u64,
    /// Time since which space waits to be returned.
    returning: Option<Instant>,
    idle: Idle,
}

impl Core {
    /// Runs the maintenance thread until it is stopped.
    pub fn maintain_until_stopped(&self) {
        let _poison = PoisonOnPanic(&self.health);
        let mut maintenance = Maintenance::new(self, Instant::now());
        while !self.work.scheduler.wait_for_stop(TICK) {
            maintenance.tick(self, Instant::now());
        }
    }

    /// Does the work of the maintenance thread, for a writer that does everything itself.
    pub(crate) fn maintain_once(&self) {
        self.reap();
        // What it does must not depend on the time that it takes.
        self.io.space.measure_again();
        if self.health.is_out_of_space() {
            self.retry();
        }
        if self.absorbed_since_checkpoint() >= self.options.checkpoint_bytes {
            self.checkpoint_by_itself();
        }
    }

    /// Without space: a checkpoint frees what only the last one held, and what failed is tried again, with what space there is now.
    pub(super) fn retry(&self) {
        self.io.space.measure_again();
        // What follows from an error is in `health`.
        let _ = self.checkpoint_of_absorbed();
        self.trees.all().iter().for_each(|tree| self.plan_tree(tree));
        self.work.scheduler.absorb();
    }

    fn absorbed_since_checkpoint(&self) -> u64 {
        self.io.counters.get(Counter::AbsorbedBytes) - self.checkpointed_bytes.load(Ordering::Relaxed)
    }

    /// Blocks that were loaded for readers.
    fn loaded(&self) -> u64 {
        self.io.counters.get(Counter::LeafBlockMisses) + self.io.counters.get(Counter::RunBlockMisses)
    }

    fn checkpoint_by_itself(&self) {
        self.checkpointed_bytes.store(self.io.counters.get(Counter::AbsorbedBytes), Ordering::Relaxed);
        // What follows from an error is in `health`; it is tried again when it is due again.
        let _ = self.checkpoint();
    }
}

impl Maintenance {
    pub(super) fn new(core: &Core, now: Instant) -> Maintenance {
        Maintenance {
            visible: core.visible(),
            written: now,
            checkpointed: now,
            retried: now,
            cleaned: now,
            loaded: core.loaded(),
            snapshots: 0,
            returning: None,
            idle: Idle::default(),
        }
    }

    pub(super) fn tick(&mut self, core: &Core, now: Instant) {
        if core.health.is_poisoned() {
            return;
        }
        if core.visible() != self.visible {
            (self.visible, self.written, self.snapshots) = (core.visible(), now, core.snapshots.registrations());
        }
        core.reap();
        core.count_debt();
        self.retry(core, now);
        self.checkpoint(core, now);
        let idle = now.duration_since(self.written);
        if idle >= PAUSE && core.filling_bytes() > 0 && core.snapshots.registrations() > self.snapshots + SNAPSHOTS_MIN
        {
            // Readers hit the memtable again and again.
            core.freeze();
            core.work.scheduler.absorb();
        }
        let since = now.duration_since(self.cleaned);
        if idle >= IDLE && since >= CLEANING && core.work.scheduler.is_idle() {
            let loaded = core.loaded();
            let reads = (loaded - self.loaded) as f64 >= LOADS_OF_READERS as f64 * since.as_secs_f64();
            (self.cleaned, self.loaded) = (now, loaded);
            self.idle.clean(core, if reads { 1 } else { CLEANED_AT_ONCE });
        }
    }

    fn retry(&mut self, core: &Core, now: Instant) {
        let stuck = !core.backlog.is_empty() && core.work.scheduler.is_idle();
        if (stuck || core.health.is_out_of_space()) && now.duration_since(self.retried) >= RETRY {
            self.retried = now;
            core.retry();
        }
    }

    fn checkpoint(&mut self, core: &Core, now: Instant) {
        let interval = Duration::from_millis(core.checkpoint_interval_ms.load(Ordering::Relaxed));
        let timed = !interval.is_zero() && now.duration_since(self.checkpointed) >= interval;
        let full = core.absorbed_since_checkpoint() >= core.options.checkpoint_bytes;
        if full || (timed && core.has_changed()) || self.returns_space(core, now) {
            core.checkpoint_by_itself();
            (self.checkpointed, self.returning) = (Instant::now(), None);
        }
    }

    fn returns_space(&mut self, core: &Core, now: Instant) -> bool {
        if !core.returns_space.load(Ordering::Relaxed) {
            self.returning = None;
            return false;
        }
        now.duration_since(*self.returning.get_or_insert(now)) >= RETURN
    }
}
