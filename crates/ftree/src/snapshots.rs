//! Which sequence numbers readers hold, so that merges keep what they need.
//!
//! - (P1) Registering reads `visible` under the lock of the thread's shard. A merge reads `visible` first and then goes
//!   through all shards under their locks. So a snapshot that registers in a shard after the merge went through it sees at
//!   least the `visible` that the merge saw: a merge that keeps, per key, the newest entry at each listed number and at
//!   that `visible` keeps all that earlier and later readers need.
//! - (P2) Registering writes nothing that threads share, unless more threads than shards are at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::Seq;

pub(crate) const SHARDS: usize = 16;

pub struct Snapshots {
    shards: [Arc<Shard>; SHARDS],
}

/// A sequence number that merges keep the rows of, until this is dropped.
pub struct Registered {
    shard: Arc<Shard>,
    slot: usize,
    seq: Seq,
}

/// Aligned so that no two shards share cache lines, which processors fetch in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    held: Vec<Option<Seq>>,
    free: Vec<usize>,
    registered: u64,
}

impl Snapshots {
    pub fn new() -> Snapshots {
        Snapshots { shards: std::array::from_fn(|_| Arc::default()) }
    }

    /// Registers what `visible` says now.
    pub fn register(&self, visible: &AtomicU64) -> Registered {
        let shard = self.shards.get(own_shard()).expect("threads have shards below SHARDS").clone();
        let (slot, seq) = shard.slots().take(visible);
        Registered { shard, slot, seq }
    }

    /// The registered numbers, sorted, each once.
    pub fn list(&self) -> Vec<Seq> {
        let mut seqs = Vec::new();
        for shard in &self.shards {
            seqs.extend(shard.slots().held.iter().flatten());
        }
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }

    /// Returns what a merge must keep: the registered numbers, and what was visible before they were listed, for snapshots
    /// that register from now on (P1). Sorted, each once.
    pub fn stripes(&self, visible: &AtomicU64) -> Vec<Seq> {
        let seen = Seq(visible.load(Ordering::Acquire));
        let mut seqs = self.list();
        if let Err(at) = seqs.binary_search(&seen) {
            seqs.insert(at, seen);
        }
        debug_assert!(seqs.is_sorted_by(|one, next| one < next), "P1: {seqs:?}");
        seqs
    }

    /// Returns the number of registrations up to now.
    pub fn registrations(&self) -> u64 {
        self.shards.iter().map(|shard| shard.slots().registered).sum()
    }

    pub fn oldest(&self) -> Option<Seq> {
        self.shards.iter().filter_map(|shard| shard.slots().held.iter().flatten().min().copied()).min()
    }
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots::new()
    }
}

impl Shard {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.lock()
    }
}

impl Slots {
    /// The slot, and what it holds.
    fn take(&mut self, visible: &AtomicU64) -> (usize, Seq) {
        let seq = Seq(visible.load(Ordering::Acquire));
        self.registered += 1;
        let slot = self.free.pop();
        match slot.and_then(|slot| self.held.get_mut(slot)) {
            Some(held) => {
                let before = held.replace(seq);
                debug_assert!(before.is_none(), "a free slot holds nothing");
            }
            None => self.held.push(Some(seq)),
        }
        (slot.unwrap_or(self.held.len() - 1), seq)
    }

    fn release(&mut self, slot: usize) {
        if let Some(held) = self.held.get_mut(slot) {
            let before = held.take();
            debug_assert!(before.is_some(), "a snapshot is released once");
            self.free.push(slot);
        }
        if self.free.len() == self.held.len() && self.held.len() > 64 {
            // After a burst of readers the list is short again.
            (self.held, self.free) = (Vec::new(), Vec::new());
        }
    }
}

impl Registered {
    pub fn seq(&self) -> Seq {
        self.seq
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shard.slots().release(self.slot);
    }
}

/// Returns the shard in which this thread registers.
pub(crate) fn own_shard() -> usize {
    arbor_base::thread_number() % SHARDS
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_of_readers_stays_counted() {
        let (snapshots, visible) = (Snapshots::new(), AtomicU64::new(5));
        let burst: Vec<Registered> = (0..100).map(|_| snapshots.register(&visible)).collect();
        drop(burst);
        assert_eq!((snapshots.registrations(), snapshots.list()), (100, vec![]));
    }

    #[test]
    fn lists_what_is_held() {
        let (snapshots, visible) = (Snapshots::new(), AtomicU64::new(5));
        assert_eq!((snapshots.list(), snapshots.oldest()), (vec![], None));
        let first = snapshots.register(&visible);
        let again = std::thread::scope(|scope| scope.spawn(|| snapshots.register(&visible)).join().unwrap());
        visible.store(3, Ordering::Release);
        let third = snapshots.register(&visible);
        assert_eq!((first.seq(), again.seq(), third.seq()), (Seq(5), Seq(5), Seq(3)));
        assert_eq!((snapshots.list(), snapshots.oldest()), (vec![Seq(3), Seq(5)], Some(Seq(3))));
        visible.store(4, Ordering::Release);
        assert_eq!(snapshots.stripes(&visible), [3, 4, 5].map(Seq));
        drop((third, first));
        assert_eq!((snapshots.list(), snapshots.oldest()), (vec![Seq(5)], Some(Seq(5))));
        drop(snapshots);
        assert_eq!(again.seq(), Seq(5));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 256 }, failure_persistence: None, ..Default::default() })]
        /// Registers on several threads' shards, raises `visible`, drops: the list is always what a plain list says.
        #[test]
        fn agrees_with_a_plain_list(steps in prop::collection::vec((0u8..3, any::<prop::sample::Index>()), 0..if cfg!(miri) { 40 } else { 200 })) {
            let (snapshots, visible) = (Snapshots::new(), AtomicU64::new(0));
            let mut held: Vec<Registered> = Vec::new();
            for (step, index) in steps {
                match step {
                    0 => _ = visible.fetch_add(1, Ordering::Release),
                    1 => held.push(snapshots.register(&visible)),
                    _ if held.is_empty() => {}
                    _ => _ = held.swap_remove(index.index(held.len())),
                }
                let mut expected: Vec<Seq> = held.iter().map(Registered::seq).collect();
                expected.sort();
                expected.dedup();
                prop_assert_eq!(snapshots.oldest(), expected.first().copied());
                prop_assert_eq!(snapshots.list(), expected);
            }
        }
    }

    /// The protocol of merges: the oldest registration a merge may not know of is at least what it saw as visible. Here
    /// the "merge" forgets all below its stripes, and each reader checks that what it holds is still remembered.
    #[test]
    fn no_merge_misses_a_reader() {
        let merges = if cfg!(miri) { 10 } else { 2_000 };
        let (snapshots, visible, done) = (Snapshots::new(), AtomicU64::new(1), AtomicBool::new(false));
        // As of the last merge: the numbers below what it saw as visible that it kept.
        let kept = Mutex::new((vec![], Seq(0)));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let registered = snapshots.register(&visible);
                        std::thread::yield_now();
                        let kept = kept.lock();
                        let (stripes, seen): &(Vec<Seq>, Seq) = &kept;
                        assert!(
                            registered.seq() >= *seen || stripes.contains(&registered.seq()),
                            "{registered:?} {kept:?}"
                        );
                    }
                });
            }
            for _ in 0..merges {
                visible.fetch_add(1, Ordering::Release);
                let seen = Seq(visible.load(Ordering::Acquire));
                let mut kept = kept.lock();
                *kept = (snapshots.stripes(&visible), seen);
                drop(kept);
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    impl std::fmt::Debug for Registered {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.seq.fmt(f)
        }
    }
}
