//! Room for writers: waiting work, how long a writer is slowed because of it, and when it is not let in at all.
//!
//! A writer sleeps in [`Core::wait_for_room`], before it holds any lock, for what was applied since it last did. In
//! [`Core::admit`], inside of `apply`, no thread sleeps but at twice the debt that may be, which a writer that waited for room does
//! not reach: there memory is bounded for those that did not, as a replay of the log.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arbor_base::sometimes;

use super::pace;
use crate::core::Core;
use crate::counters::Counter;
use crate::flush::plan;
use crate::tree::install::find;
use crate::tree::{Bounds, Place, Tree};
use crate::{Error, Result};

/// Frozen memtables and the one that is filled.
const MEMTABLES: u64 = 4;
/// Messages in nodes beyond what these may hold, in memtables.
const BEYOND: u64 = 4;
/// The part of the budget that may be taken by what cannot be evicted.
const PINNED_MAX: f64 = 0.8;
/// The debt at which `apply` waits.
const STOP: f64 = 2.0;
/// Without space, batches that only free some may be applied up to this debt of memtables: what they held before may have become messages
/// in nodes meanwhile, which take no memory.
const RESERVE: f64 = STOP + 1.0;
const _: () = assert!(STOP > 1.0 && PINNED_MAX < 1.0, "writers are slowed before they are stopped");

impl Core {
    /// Sleeps for what was applied since the last call, [`pace::SLEEP_MAX`] at most.
    pub(crate) fn wait_for_room(&self) {
        // Without space there is nothing to wait for; `admit` says so.
        if self.options.threads == 0 || self.health.is_poisoned() || self.health.is_out_of_space() {
            return;
        }
        let bytes = self.work.unpaced.swap(0, Ordering::Relaxed);
        let pace = self.pace();
        if pace.is_finite() {
            let delay = self.work.clock.advance(Instant::now(), bytes, pace);
            if !delay.is_zero() {
                self.sleep(delay);
            }
        }
    }

    /// Lets in what `wait_for_room` slept for. Errors: writing is over, or there is no space.
    pub(crate) fn admit(&self, only_frees: bool) -> Result<()> {
        let mut tried = false;
        loop {
            self.health.check()?;
            let debt = self.memtable_debt().max(self.flush_debt());
            if debt >= 1.0 && self.health.is_out_of_space() && self.options.threads == 0 && !tried {
                tried = true;
                self.retry();
                self.run_due();
                continue;
            }
            if debt >= 1.0 && self.health.is_out_of_space() {
                return match only_frees && self.memtable_debt() < RESERVE {
                    true => {
                        sometimes!("ftree: what frees space is let in without space");
                        Ok(())
                    }
                    false => Err(Error::OutOfSpace { context: "earlier writes are stalled: no space".to_owned() }),
                };
            }
            let pinned = self.io.cache.pressure() >= 1.0;
            if self.options.threads == 0 || (debt < STOP && !pinned) {
                return Ok(());
            }
            if self.backlog.is_empty() && self.work.scheduler.is_idle() {
                // Memory that is not a memtable's is short: waiting would not change that.
                if self.filling_bytes() == 0 {
                    return Ok(());
                }
                self.freeze();
                self.work.scheduler.absorb();
            }
            sometimes!("ftree: a writer waits at the limit of what may wait");
            self.sleep(pace::STEP);
        }
    }

    fn sleep(&self, delay: Duration) {
        std::thread::sleep(delay);
        self.io.counters.add(Counter::PaceSleeps, 1);
        self.io.counters.add(Counter::PaceSleepUs, delay.as_micros() as u64);
    }

    fn pace(&self) -> f64 {
        let absorbing = pace::pace(self.memtable_debt(), self.work.absorbing.get());
        absorbing.min(pace::pace(self.flush_debt(), self.work.flushing.get()))
    }

    /// Memtables: frozen ones and the part of the active one that is full. Memory that cannot be evicted counts from half of what it may be.
    fn memtable_debt(&self) -> f64 {
        let bytes = self.backlog.bytes() + self.filling_bytes();
        let pinned = self.io.cache.pressure() / PINNED_MAX;
        (bytes as f64 / (MEMTABLES * self.options.memtable_bytes) as f64).max(2.0 * pinned - 1.0)
    }

    pub(super) fn flush_debt(&self) -> f64 {
        self.work.debt.bytes() as f64 / (BEYOND * self.options.memtable_bytes) as f64
    }

    /// The tree's nodes changed. Returns by how much its debt fell.
    pub(crate) fn note_debt(&self, tree: &Tree) -> i64 {
        let root = tree.root();
        let mut bytes = plan::excess(&root, &tree.settings.load());
        for (level, from) in self.health.put_aside(tree.serial) {
            // These are never flushed.
            let to = Some([from.as_slice(), &[0]].concat());
            let place = Place { level, bounds: Bounds { from: from.clone(), to } };
            let slot = find(&root, &place).and_then(|(node, _)| node.slots.get(node.slot_of(&from)));
            bytes = bytes.saturating_sub(slot.map_or(0, |slot| slot.buffered_bytes()));
        }
        self.work.debt.set(tree.serial, bytes)
    }

    /// Counts what other changes of trees left: drops, bulk loads, compaction.
    pub(crate) fn count_debt(&self) {
        let buffered = self.buffered();
        self.work.debt.keep_only(|serial| buffered.iter().any(|tree| tree.serial == serial));
        for tree in &buffered {
            self.note_debt(tree);
        }
    }
}
