//! A counter that many threads raise without sharing a cache line.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 16;

/// Counts up on every thread, is summed rarely. `sum` is exact once the counting threads are quiet.
#[derive(Default)]
pub struct ShardedCounter {
    shards: [Shard; SHARDS],
}

#[derive(Default)]
#[repr(align(128))]
struct Shard(AtomicU64);

impl ShardedCounter {
    pub fn add(&self, n: u64) {
        if let Some(shard) = self.shards.get(thread_number() % SHARDS) {
            shard.0.fetch_add(n, Ordering::Relaxed);
        }
    }

    pub fn sum(&self) -> u64 {
        self.shards.iter().fold(0, |sum, shard| sum.wrapping_add(shard.0.load(Ordering::Relaxed)))
    }
}

impl std::fmt::Debug for ShardedCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.sum().fmt(f)
    }
}

/// Numbers the threads in the order in which they first ask. The remainder by a number of shards deals threads out to them.
#[inline]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_what_all_threads_counted() {
        let counter = ShardedCounter::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|_| counter.add(2)));
            }
        });
        assert_eq!(counter.sum(), 4000);
    }
}
