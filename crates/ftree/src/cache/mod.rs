//! The one memory budget, and eviction when it is used up.
//!
//! Everything of size charges the [`Cache`]: memtables and buffers of background work hold *pinned* charges, inner nodes and
//! metas of tables *resident* ones, cached blocks and table bodies are in [`Cell`]s and can be evicted. There is no table of
//! cached things: a block is found through the table that owns it, so a hit is one load and touches no shared line but the
//! count of uses while that can grow.
//!
//! Charges are what the allocator reserves ([`heap_bytes`]), and a part of the budget is left to what it loses between them
//! ([`chargeable`]), so that the resident memory of a process is near the budget.
//!
//! **Invariants**
//! - M1: `used` is the sum of all living charges. A charge of something evicted lives until its last reader is gone.
//! - M2: a thread that takes `used` above the limit evicts until it is below again or nothing more can be evicted, so `used`
//!   is above the limit by at most one item per thread plus what is pinned above it. What is pinned is bounded: memtables by
//!   the debt that writers are let in with, jobs by their shares (`work/shares.rs`).
//! - M3: a full cell has exactly one entry in the queue: `Cell::put` says whether the cell was empty, and only then the
//!   caller admits it; only the entry's holder empties the cell.
//!
//! Threads: everything may be called from anywhere. No lock is held while a value is dropped.

mod cell;
mod hazard;
mod queue;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Memory of each cached thing besides itself: its `Arc` with charge and count of uses, its entry in the queue.
pub const ITEM_BYTES: usize = 128;

/// Part of the budget that the allocator loses between allocations, in percent (measured: 2 to 4),
const SLACK_PERCENT: u64 = 10;
/// and what it keeps of freed pages for a moment, with stacks and buffers for reading, which are not charged (measured: 25 to
/// 35 MB at full load, of any budget; what is more than this and the percents goes beyond the budget),
const SLACK_BYTES_MAX: u64 = 8 << 20;
/// but of small budgets at most one part in this many.
const SLACK_PARTS: u64 = 8;
const _: () = assert!(100 / SLACK_PARTS + SLACK_PERCENT < 100, "most of a budget can be charged");

/// The part of the limit that nodes and metas may take before writers are slowed for them, in percent.
const RESIDENT_PERCENT: u64 = 30;

/// A cache is full where one part in this many is free, or less.
const FULL_PARTS: u64 = 16;

/// Returns how much may be charged under a budget of resident memory.
pub fn chargeable(budget_bytes: u64) -> u64 {
    let percents = (u128::from(budget_bytes) * u128::from(SLACK_PERCENT) / 100) as u64;
    budget_bytes - percents - (budget_bytes / SLACK_PARTS).min(SLACK_BYTES_MAX)
}

/// Returns what an allocator reserves for this many bytes: size classes of jemalloc, four to a doubling.
pub fn heap_bytes(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 2)),
    }
}

pub use cell::{Cell, Guard};
use queue::Queue;
pub use queue::{Evictable, Evicted};

/// Clones share one budget.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

struct Shared {
    limit: AtomicU64,
    used: AtomicU64,
    /// The part of `used` that goes when work is done.
    pinned: AtomicU64,
    /// The part of `used` that stays as long as the data.
    resident: AtomicU64,
    /// The greatest that `used` was after room had been made.
    peak: AtomicU64,
    queue: Queue,
}

impl Cache {
    pub fn new(limit_bytes: u64) -> Cache {
        let limit = AtomicU64::new(limit_bytes);
        let [used, pinned, resident, peak] = [const { AtomicU64::new(0) }; 4];
        Cache { shared: Arc::new(Shared { limit, used, pinned, resident, peak, queue: Queue::default() }) }
    }

    /// Charges memory that cannot be evicted until the value goes into a [`Cell`]. Makes room, but is never refused.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.charge_as(Hold::Pinned, bytes)
    }

    /// Charges what stays in memory as long as the data that it belongs to: inner nodes, metas of tables.
    pub fn charge_resident(&self, bytes: u64) -> Charge {
        self.charge_as(Hold::Resident, bytes)
    }

    fn charge_as(&self, hold: Hold, bytes: u64) -> Charge {
        let mut charge = Charge { shared: self.shared.clone(), bytes: 0, hold };
        charge.resize(bytes);
        charge
    }

    /// Queues what has just been put into an empty cell. `owner.evict(item)` will be asked to empty it again.
    pub fn admit(&self, owner: Weak<dyn Evictable>, item: u32) {
        self.shared.queue.push(owner, item);
        self.make_room();
    }

    /// Queues what has just been put into an empty cell and replaces something that was in memory: not on probation.
    pub fn admit_replacement(&self, owner: Weak<dyn Evictable>, item: u32) {
        self.shared.queue.push_main(owner, item);
        self.make_room();
    }

    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    pub fn limit(&self) -> u64 {
        self.shared.limit.load(Ordering::Relaxed)
    }

    pub fn set_limit(&self, bytes: u64) {
        self.shared.limit.store(bytes, Ordering::Relaxed);
        self.make_room();
    }

    pub fn over(&self) -> bool {
        self.used() > self.limit()
    }

    /// Returns true if what is admitted evicts something, now or soon.
    pub fn is_full(&self) -> bool {
        let limit = self.limit();
        self.used() > limit - limit / FULL_PARTS
    }

    /// Bytes that cannot be evicted.
    pub fn pinned(&self) -> u64 {
        self.shared.pinned.load(Ordering::Relaxed) + self.resident()
    }

    /// Returns the charges that stay as long as the data.
    pub fn resident(&self) -> u64 {
        self.shared.resident.load(Ordering::Relaxed)
    }

    /// The most that was charged at any time.
    pub fn peak(&self) -> u64 {
        self.shared.peak.load(Ordering::Relaxed)
    }

    /// The part of the limit that is taken by what cannot be evicted; above 1 the limit does not hold. What is resident counts
    /// where it is over its part: up to there the cache makes way, and slowing writers would not make it less.
    pub fn pressure(&self) -> f64 {
        let over = self.resident().saturating_sub(self.limit() / 100 * RESIDENT_PERCENT);
        (self.shared.pinned.load(Ordering::Relaxed) + over) as f64 / self.limit().max(1) as f64
    }

    fn make_room(&self) {
        while self.over() && self.shared.queue.evict_one() {}
        let used = self.used();
        if used > self.shared.peak.load(Ordering::Relaxed) {
            self.shared.peak.fetch_max(used, Ordering::Relaxed);
        }
    }
}

/// Why something is in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    Evictable,
    Pinned,
    Resident,
}

impl Shared {
    /// The sum that a charge is a part of besides `used`.
    fn held(&self, hold: Hold) -> Option<&AtomicU64> {
        match hold {
            Hold::Evictable => None,
            Hold::Pinned => Some(&self.pinned),
            Hold::Resident => Some(&self.resident),
        }
    }
}

/// A part of the budget that is taken, until this is dropped.
pub struct Charge {
    shared: Arc<Shared>,
    bytes: u64,
    hold: Hold,
}

impl Charge {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes how much is taken. Growing makes room.
    pub fn resize(&mut self, bytes: u64) {
        let more = bytes.wrapping_sub(self.bytes);
        let before = self.shared.used.fetch_add(more, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "M1: {before} are used, {} of them here", self.bytes);
        if let Some(held) = self.shared.held(self.hold) {
            held.fetch_add(more, Ordering::Relaxed);
        }
        let grown = bytes > self.bytes;
        self.bytes = bytes;
        if grown {
            Cache { shared: self.shared.clone() }.make_room();
        }
    }

    /// As much once more, for the same reason.
    pub fn again(&self) -> Charge {
        Cache { shared: self.shared.clone() }.charge_as(self.hold, self.bytes)
    }

    fn unpin(&mut self) {
        if let Some(held) = self.shared.held(std::mem::replace(&mut self.hold, Hold::Evictable)) {
            let before = held.fetch_sub(self.bytes, Ordering::Relaxed);
            debug_assert!(before >= self.bytes, "M1: {before} are held, {} of them here", self.bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.unpin();
        let before = self.shared.used.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "M1: {before} are used, {} of them here", self.bytes);
    }
}

#[cfg(test)]
mod tests;
