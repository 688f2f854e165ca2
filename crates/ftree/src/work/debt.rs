//! Messages that wait in nodes beyond what these may hold: work that was accepted and not done.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

#[derive(Default)]
pub struct Debt {
    total: AtomicU64,
    /// By the serial number of the tree; those without any are missing.
    trees: Mutex<HashMap<u64, u64>>,
}

impl Debt {
    /// Total over all trees, in bytes.
    pub fn bytes(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Says how much a tree owes now, and returns how much less that is than before.
    pub fn set(&self, serial: u64, bytes: u64) -> i64 {
        let mut trees = self.trees.lock();
        let before = if bytes == 0 { trees.remove(&serial) } else { trees.insert(serial, bytes) }.unwrap_or_default();
        let paid = before as i64 - bytes as i64;
        self.total.store(self.bytes().saturating_add_signed(-paid), Ordering::Relaxed);
        debug_assert!(self.bytes() == trees.values().sum::<u64>(), "the total is what the trees owe");
        paid
    }

    /// The other trees are gone, or owe nothing.
    pub fn keep_only(&self, keeps: impl Fn(u64) -> bool) {
        let mut trees = self.trees.lock();
        trees.retain(|serial, _| keeps(*serial));
        self.total.store(trees.values().sum(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_trees_owe_is_summed() {
        let debt = Debt::default();
        let steps = [(1, 100, -100, 100), (2, 50, -50, 150), (1, 30, 70, 80), (2, 0, 50, 30), (3, 0, 0, 30)];
        for (serial, bytes, paid, total) in steps {
            assert_eq!((debt.set(serial, bytes), debt.bytes()), (paid, total), "tree {serial} owes {bytes}");
        }
        debt.keep_only(|serial| serial != 1);
        assert_eq!(debt.bytes(), 0);
    }
}
