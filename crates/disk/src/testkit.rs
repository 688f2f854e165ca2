//! Loops for tests that must survive a failure at every single call.

use crate::{Fault, FaultyDisk};

/// Runs `scenario` on a fresh disk whose first call fails, then on one whose second call fails, and so on, until a run
/// ends without reaching its failing call. Returns how many calls that run made.
///
/// Requires: the scenario makes the same calls each time (no background threads) and is finite.
pub fn fail_at_each(fault: Fault, mut scenario: impl FnMut(&FaultyDisk)) -> u64 {
    const CALLS_MAX: u64 = 1_000_000;
    for n in 0..CALLS_MAX {
        let disk = FaultyDisk::new();
        disk.fail_nth(n, fault);
        scenario(&disk);
        if !disk.fault_triggered() {
            return n;
        }
    }
    panic!("the scenario makes more than {CALLS_MAX} calls");
}
