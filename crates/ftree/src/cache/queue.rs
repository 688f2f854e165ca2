//! The order in which things are thrown out: first in, first out, with a second chance for what was used.

use std::collections::VecDeque;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbor_base::sometimes;
use parking_lot::{Mutex, MutexGuard};

/// Something that owns cells.
pub trait Evictable: Send + Sync {
    /// Empties a cell with [`super::Cell::evict`]. Called without locks; must not wait.
    fn evict(&self, item: u32) -> Evicted;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evicted {
    Freed,
    /// Used since it was asked the last time: it goes to the end of the queue.
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

/// Items go round the shards in turn, so the shards together keep the order well enough.
#[derive(Default)]
pub(super) struct Queue {
    shards: [Mutex<Shard>; SHARDS],
    /// In all shards.
    len: AtomicUsize,
    tail: AtomicUsize,
    head: AtomicUsize,
}

impl Queue {
    pub(super) fn push(&self, owner: Weak<dyn Evictable>, item: u32) {
        let mut shard = self.shard(self.tail.fetch_add(1, Ordering::Relaxed));
        shard.items.push_back((owner, item));
        self.len.fetch_add(1, Ordering::Relaxed);
        if shard.items.len() >= shard.compact_at.max(COMPACT_MIN) {
            let before = shard.items.len();
            shard.items.retain(|(owner, _)| owner.strong_count() > 0);
            shard.compact_at = shard.items.len() * 2;
            self.len.fetch_sub(before - shard.items.len(), Ordering::Relaxed);
        }
    }

    /// Frees one item. False when there is none, or when all of them are used faster than they are passed by.
    pub(super) fn evict_one(&self) -> bool {
        let tries = 2 * self.len.load(Ordering::Relaxed) + SHARDS;
        for _ in 0..tries {
            let Some((owner, item)) = self.pop() else { return false };
            let Some(alive) = owner.upgrade() else { continue };
            match alive.evict(item) {
                Evicted::Freed => return true,
                Evicted::InUse => {
                    sometimes!("ftree: what is in use stays in the cache");
                    self.push(owner, item);
                }
                Evicted::Gone => {}
            }
        }
        false
    }

    fn pop(&self) -> Option<Item> {
        for _ in 0..SHARDS {
            if self.len.load(Ordering::Relaxed) == 0 {
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

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}
