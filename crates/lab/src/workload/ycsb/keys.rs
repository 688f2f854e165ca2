//! Key names and the numbers of keys that were inserted (spec/workloads.md 8.1, 8.2, 8.6).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::settings::{Order, Plan};

/// 64-bit FNV-1a over the eight bytes of the number, low byte first, made positive.
pub fn fnv(number: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    let hash =
        number.to_le_bytes().iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    (hash as i64).unsigned_abs()
}

/// Replaces `name` by the key of record `number`.
pub(super) fn write_key(plan: &Plan, number: u64, name: &mut String) {
    name.clear();
    // Writing to a String cannot fail.
    let _ = match plan.insertorder {
        Order::Hashed => write!(name, "user{}", fnv(number)),
        Order::Ordered => write!(name, "user{number:0width$}", width = plan.zeropadding),
    };
}

/// Which key is next, and up to which all are in the database. Shared by the clients of a run.
#[derive(Debug)]
pub(super) struct KeyCounter {
    next: AtomicU64,
    /// All below were acknowledged.
    acknowledged: AtomicU64,
    /// Acknowledged out of order.
    pending: Mutex<BTreeSet<u64>>,
}

impl KeyCounter {
    pub(super) fn new(first: u64) -> KeyCounter {
        KeyCounter { next: AtomicU64::new(first), acknowledged: AtomicU64::new(first), pending: Mutex::default() }
    }

    /// Continues after the `count` existing keys.
    pub(super) fn resume(&self, count: u64) {
        self.next.fetch_max(count, Ordering::Relaxed);
        self.acknowledged.fetch_max(count, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Marks the key as in the database or abandoned: in both cases later keys need not wait for it.
    pub(super) fn acknowledge(&self, key: u64) {
        let mut pending = self.pending.lock();
        pending.insert(key);
        let mut end = self.acknowledged.load(Ordering::Relaxed);
        while pending.remove(&end) {
            end += 1;
        }
        self.acknowledged.store(end, Ordering::Relaxed);
    }

    /// The last key that is there together with all before it.
    pub(super) fn last(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_vectors() {
        for (number, hash) in [
            (0, 6284781860667377211),
            (1, 8517097267634966620),
            (2, 1820151046732198393),
            (3, 4052466453699787802),
            (10, 2408371864701034737),
            (999, 2071219101098386137),
            (1_000_000, 1011632231655643464),
            (99_999_999, 3767403666534399336),
        ] {
            assert_eq!(fnv(number), hash, "{number}");
        }
    }

    #[test]
    fn keys_become_eligible_in_order() {
        let keys = KeyCounter::new(10);
        assert_eq!((keys.take(), keys.take(), keys.take(), keys.last()), (10, 11, 12, 9));
        keys.acknowledge(12);
        keys.acknowledge(11);
        assert_eq!(keys.last(), 9);
        keys.acknowledge(10);
        assert_eq!(keys.last(), 12);
        keys.resume(5);
        assert_eq!(keys.take(), 13);
    }
}
