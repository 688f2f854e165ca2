//! The order in which things are evicted: S3-FIFO without its queue of ghosts.
//!
//! | source | |
//! |---|---|
//! | Yang, Zhang, Qiu, Yue, Rashmi: *FIFO queues are all you need for cache eviction* (SOSP 2023) | a short probation queue, through which most of what is read once leaves, and a main queue with a second chance for each of up to three uses |
//!
//! A block that is read once passes a tenth of the cache, instead of all of it, while the main queue has what is used often.
//!
//! Ghosts, the names of what was evicted lately, let what is missed soon after into the main queue at once. They are left out: where half of the
//! reads are of random keys they admit these. Without them a changed working set would not come in while the main queue has
//! something, so every sixteenth eviction passes an item of that: what is no longer used leaves it, and the probation queue grows.

use std::collections::VecDeque;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbor_base::sometimes;
use parking_lot::{Mutex, MutexGuard};

use super::cell::USES_MAX;

/// Something that owns cells.
pub trait Evictable: Send + Sync {
    /// Empties a cell with [`super::Cell::evict`]. Called without locks; must not wait.
    fn evict(&self, item: u32) -> Evicted;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evicted {
    Freed,
    /// Used, one time less than before: it goes to the end of the main queue.
    InUse,
    /// There was nothing.
    Gone,
}

const SHARDS: usize = 16;
const COMPACT_MIN: usize = 1024;

type Item = (Weak<dyn Evictable>, u32);

#[derive(Default)]
struct Shard {
    items: VecDeque<Item>,
    /// Items of owners that are gone are sorted out when there are this many in all.
    compact_at: usize,
}

/// One part in this many of the items is on probation, at least.
const PROBATION_PARTS: usize = 10;
/// One eviction in this many is of the main queue, however many items are on probation.
const MAIN_PARTS: usize = 16;

/// Everything that can be evicted: on probation since it was admitted, and in the main queue since it was used there.
#[derive(Default)]
pub(super) struct Queue {
    probation: Fifo,
    main: Fifo,
    /// Items that an eviction has passed.
    passed: AtomicUsize,
}

impl Queue {
    pub(super) fn push(&self, owner: Weak<dyn Evictable>, item: u32) {
        self.probation.push((owner, item));
    }

    pub(super) fn push_main(&self, owner: Weak<dyn Evictable>, item: u32) {
        self.main.push((owner, item));
    }

    /// Frees one item. False when there is none, or when all of them are used faster than they are passed by.
    pub(super) fn evict_one(&self) -> bool {
        let tries = (usize::from(USES_MAX) + 1) * self.len() + 2 * SHARDS;
        for _ in 0..tries {
            let Some((owner, item)) = self.pop() else { return false };
            let Some(alive) = owner.upgrade() else { continue };
            match alive.evict(item) {
                Evicted::Freed => return true,
                Evicted::InUse => {
                    sometimes!("ftree: what is in use stays in the cache");
                    self.main.push((owner, item));
                }
                Evicted::Gone => {}
            }
        }
        false
    }

    fn pop(&self) -> Option<Item> {
        let (probation, main) = (self.probation.len(), self.main.len());
        let is_main_due = self.passed.fetch_add(1, Ordering::Relaxed) % MAIN_PARTS == MAIN_PARTS - 1;
        let is_probation_long = probation * PROBATION_PARTS > probation + main;
        if is_probation_long && !is_main_due {
            self.probation.pop().or_else(|| self.main.pop())
        } else {
            self.main.pop().or_else(|| self.probation.pop())
        }
    }

    pub(super) fn len(&self) -> usize {
        self.probation.len() + self.main.len()
    }
}

/// First in, first out. Items go round the shards in turn, so the shards together keep the order well enough.
#[derive(Default)]
struct Fifo {
    shards: [Mutex<Shard>; SHARDS],
    /// In all shards.
    len: AtomicUsize,
    tail: AtomicUsize,
    head: AtomicUsize,
}

impl Fifo {
    fn push(&self, item: Item) {
        let mut shard = self.shard(self.tail.fetch_add(1, Ordering::Relaxed));
        shard.items.push_back(item);
        self.len.fetch_add(1, Ordering::Relaxed);
        if shard.items.len() >= shard.compact_at.max(COMPACT_MIN) {
            let before = shard.items.len();
            shard.items.retain(|(owner, _)| owner.strong_count() > 0);
            shard.compact_at = shard.items.len() * 2;
            self.len.fetch_sub(before - shard.items.len(), Ordering::Relaxed);
        }
    }

    fn pop(&self) -> Option<Item> {
        for _ in 0..SHARDS {
            if self.len() == 0 {
                return None;
            }
            let popped = self.shard(self.head.fetch_add(1, Ordering::Relaxed)).items.pop_front();
            if popped.is_some() {
                let before = self.len.fetch_sub(1, Ordering::Relaxed);
                debug_assert!(before > 0, "an item is counted before it can be taken");
                return popped;
            }
        }
        None
    }

    fn shard(&self, at: usize) -> MutexGuard<'_, Shard> {
        self.shards.get(at % SHARDS).expect("a remainder is below its divisor").lock()
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}
