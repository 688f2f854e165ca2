//! What time brings: checkpoints, dropped trees, another try when space was short, cleaning while nobody writes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::counters::Counter;
use crate::forest::Core;
use crate::work::idle::Idle;
use crate::work::{PoisonOnPanic, pace};
use crate::{Error, Result, Seq};

const TICK: Duration = Duration::from_millis(50);
/// So long after much was deleted its space comes back.
const RETURN: Duration = Duration::from_millis(1000);
/// Between two tries to go on without space.
const RETRY: Duration = Duration::from_millis(200);
/// So long after the last write slots are cleaned, and for so many at a time.
const IDLE: Duration = Duration::from_millis(1000);
const CLEANED_AT_ONCE: usize = 8;
const CLEANING: Duration = Duration::from_millis(200);
/// After so long without a write the memtable is absorbed, if there were so many snapshots since.
const PAUSE: Duration = Duration::from_millis(250);
const MET: u64 = 20;
/// Frozen memtables and the one that is filled.
const MEMTABLES: u64 = 4;
/// Slot bytes that may wait for jobs, in memtables.
const WAITING: u64 = 8;
/// The part of the budget that may be taken by what cannot be evicted.
const PINNED_MAX: f64 = 0.8;
/// What only frees space may go on up to this debt.
const RESERVE: f64 = 2.0;

/// What the keeper remembers from tick to tick.
struct Keeper {
    visible: Seq,
    written: Instant,
    checkpointed: Instant,
    retried: Instant,
    /// When slots were cleaned, or were found clean.
    cleaned: Instant,
    /// Snapshots that had been made when the last write was seen.
    snapshots: u64,
    /// Since when space waits to be given back.
    returning: Option<Instant>,
    idle: Idle,
}

impl Core {
    /// What the keeper thread does until it is stopped.
    pub fn keep_until_stopped(&self) {
        let _poison = PoisonOnPanic(&self.health);
        let now = Instant::now();
        let (visible, returning) = (self.visible(), None);
        let mut keeper = Keeper {
            visible,
            written: now,
            checkpointed: now,
            retried: now,
            cleaned: now,
            snapshots: 0,
            returning,
            idle: Idle::default(),
        };
        while !self.work.scheduler.wait_for_stop(TICK) {
            keeper.tick(self, Instant::now());
        }
    }

    /// What the keeper would do, for a writer that does everything itself.
    pub(crate) fn keep_up(&self) {
        self.reap();
        if self.health.is_out_of_space() {
            self.retry();
        }
        if self.absorbed_since_checkpoint() >= self.options.checkpoint_bytes {
            self.checkpoint_by_itself();
        }
    }

    /// Without space: a checkpoint frees what only the last one held, and what failed is tried again.
    fn retry(&self) {
        // What frees space may take from the reserve to get there.
        let reserve = self.health.take_freeing().then(|| self.io.space.open_reserve());
        let done = self.checkpoint_of_absorbed();
        if reserve.is_some() && (done.is_err() || !self.backlog.is_empty()) {
            self.health.note_freeing();
        }
        self.trees.all().iter().for_each(|tree| self.plan_tree(tree));
        self.work.scheduler.absorb();
    }

    fn absorbed_since_checkpoint(&self) -> u64 {
        self.io.counters.get(Counter::AbsorbedBytes) - self.checkpointed_bytes.load(Ordering::Relaxed)
    }

    fn checkpoint_by_itself(&self) {
        self.checkpointed_bytes.store(self.io.counters.get(Counter::AbsorbedBytes), Ordering::Relaxed);
        // What follows from an error is in `health`; it is tried again when it is due again.
        let _ = self.checkpoint();
    }

    /// Lets a writer of `bytes` in, sooner or later. Errors: writing is over, or there is no space.
    pub(crate) fn admit(&self, bytes: u64, only_frees: bool) -> Result<()> {
        let mut tried = false;
        loop {
            self.health.check()?;
            let (memtables, slots) = (self.memtable_debt(), self.slot_debt());
            let debt = memtables.max(slots);
            if debt >= 1.0 && self.health.is_out_of_space() && self.options.threads == 0 && !tried {
                tried = true;
                self.retry();
                self.run_due();
                continue;
            }
            if debt >= 1.0 && self.health.is_out_of_space() {
                return match only_frees && debt < RESERVE {
                    true => Ok(()),
                    false => Err(Error::OutOfSpace { context: "what was written before waits for space".to_owned() }),
                };
            }
            if self.options.threads == 0 {
                return Ok(());
            }
            let full = debt >= 1.0;
            if full && self.backlog.is_empty() && self.work.scheduler.is_idle() {
                // Memory that is not a memtable's is short: waiting would not change that.
                if self.filling_bytes() == 0 {
                    return Ok(());
                }
                self.freeze();
                self.work.scheduler.absorb();
            }
            let delay = if full { pace::STEP } else { self.delay(memtables, slots, bytes) };
            if !delay.is_zero() {
                std::thread::sleep(delay);
                self.io.counters.add(Counter::PaceSleeps, 1);
                self.io.counters.add(Counter::PaceSleepUs, delay.as_micros() as u64);
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Memtables: frozen ones and the part of the active one that is full.
    fn memtable_debt(&self) -> f64 {
        let bytes = self.backlog.bytes() + self.filling_bytes();
        let pinned = self.io.cache.pressure() / PINNED_MAX;
        (bytes as f64 / (MEMTABLES * self.options.memtable_bytes) as f64).max(pinned)
    }

    fn slot_debt(&self) -> f64 {
        self.work.scheduler.waiting_bytes() as f64 / (WAITING * self.options.memtable_bytes) as f64
    }

    fn delay(&self, memtables: f64, slots: f64, bytes: u64) -> Duration {
        let absorbing = pace::delay(memtables, bytes, self.work.absorbing.get());
        absorbing.max(pace::delay(slots, bytes, self.work.flushing.get()))
    }
}

impl Keeper {
    fn tick(&mut self, core: &Core, now: Instant) {
        if core.health.is_poisoned() {
            return;
        }
        if core.visible() != self.visible {
            (self.visible, self.written, self.snapshots) = (core.visible(), now, core.snapshots.registrations());
        }
        core.reap();
        self.retry(core, now);
        self.checkpoint(core, now);
        let idle = now.duration_since(self.written);
        if idle >= PAUSE && core.filling_bytes() > 0 && core.snapshots.registrations() > self.snapshots + MET {
            // Readers meet the memtable again and again.
            core.freeze();
            core.work.scheduler.absorb();
        }
        if idle >= IDLE && now.duration_since(self.cleaned) >= CLEANING && core.work.scheduler.is_idle() {
            self.cleaned = now;
            self.idle.clean(core, CLEANED_AT_ONCE);
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
        let interval = Duration::from_millis(core.options.checkpoint_interval_ms);
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
