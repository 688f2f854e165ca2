//! The one memory budget, and what is thrown out when it is used up.
//!
//! Everything of size charges the [`Cache`]: memtables and buffers of background work hold *pinned* charges, cached
//! blocks and table bodies stand in [`Cell`]s and can be evicted. There is no table of cached things: a block is found
//! through the table that owns it, so a hit is one load and touches no shared line but the use flag when it is clear.
//!
//! **Invariants**
//! - M1: `used` is the sum of all living charges. A charge of something evicted lives until its last reader is gone.
//! - M2: whoever takes `used` above the limit evicts until it is below again or nothing more can be evicted, so `used`
//!   is above the limit by at most one item per thread plus what is pinned above it.
//! - M3: a full cell has exactly one entry in the queue: `Cell::put` says whether the cell was empty, and only then the
//!   caller admits it; only the entry's holder empties the cell.
//!
//! Threads: everything may be called from anywhere. No lock is held while a value is dropped.

mod cell;
mod queue;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

pub use cell::{Cached, Cell, Guard};
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
    /// The part of `used` that cannot be evicted.
    pinned: AtomicU64,
    queue: Queue,
}

impl Cache {
    pub fn new(limit_bytes: u64) -> Cache {
        let limit = AtomicU64::new(limit_bytes);
        let (used, pinned) = (AtomicU64::new(0), AtomicU64::new(0));
        Cache { shared: Arc::new(Shared { limit, used, pinned, queue: Queue::default() }) }
    }

    /// Charges memory that cannot be evicted until the value goes into a [`Cell`]. Makes room, but is never refused.
    pub fn charge(&self, bytes: u64) -> Charge {
        self.shared.used.fetch_add(bytes, Ordering::Relaxed);
        self.shared.pinned.fetch_add(bytes, Ordering::Relaxed);
        self.make_room();
        Charge { shared: self.shared.clone(), bytes, pinned: true }
    }

    /// Queues what has just been put into an empty cell. `owner.evict(item)` will be asked to empty it again.
    pub fn admit(&self, owner: Weak<dyn Evictable>, item: u32) {
        self.shared.queue.push(owner, item);
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

    /// Bytes that cannot be evicted.
    pub fn pinned(&self) -> u64 {
        self.shared.pinned.load(Ordering::Relaxed)
    }

    /// The part of the limit that is taken by what cannot be evicted; above 1 the limit does not hold.
    pub fn pressure(&self) -> f64 {
        self.pinned() as f64 / self.limit().max(1) as f64
    }

    fn make_room(&self) {
        while self.over() && self.shared.queue.evict_one() {}
    }
}

/// A part of the budget that is taken, until this is dropped.
pub struct Charge {
    shared: Arc<Shared>,
    bytes: u64,
    pinned: bool,
}

impl Charge {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes how much is taken. Growing makes room.
    pub fn resize(&mut self, bytes: u64) {
        let more = bytes.wrapping_sub(self.bytes);
        self.shared.used.fetch_add(more, Ordering::Relaxed);
        if self.pinned {
            self.shared.pinned.fetch_add(more, Ordering::Relaxed);
        }
        let grown = bytes > self.bytes;
        self.bytes = bytes;
        if grown {
            Cache { shared: self.shared.clone() }.make_room();
        }
    }

    fn unpin(&mut self) {
        if std::mem::take(&mut self.pinned) {
            self.shared.pinned.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.unpin();
        self.shared.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
