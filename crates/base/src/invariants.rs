//! Assertions that are too expensive for release builds, and branches that tests must reach.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// True in debug builds, and with the feature `paranoid` (fuzzing, crash loops): [`paranoid!`](crate::paranoid) checks and
/// [`sometimes!`](crate::sometimes) records.
pub const PARANOID: bool = cfg!(any(debug_assertions, feature = "paranoid"));

/// Asserts where [`PARANOID`] is true: for checks that cost more than what they guard. Takes what `assert!` takes.
#[macro_export]
macro_rules! paranoid {
    ($($check:tt)*) => {
        if $crate::invariants::PARANOID {
            assert!($($check)*);
        }
    };
}

/// Records that a rare branch was taken, where [`PARANOID`] is true. A test requires it with [`assert_reached`].
#[macro_export]
macro_rules! sometimes {
    ($name:literal) => {
        if $crate::invariants::PARANOID {
            static BRANCH: $crate::invariants::Branch = $crate::invariants::Branch::new($name);
            BRANCH.reach();
        }
    };
}

static REACHED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// A branch that [`sometimes!`](crate::sometimes) records.
pub struct Branch {
    name: &'static str,
    reached: AtomicBool,
}

impl Branch {
    pub const fn new(name: &'static str) -> Branch {
        Branch { name, reached: AtomicBool::new(false) }
    }

    pub fn reach(&self) {
        if !self.reached.load(Ordering::Relaxed) {
            self.reached.store(true, Ordering::Relaxed);
            REACHED.lock().insert(self.name);
        }
    }
}

/// Returns which of the named branches this process has not taken; none where [`PARANOID`] is false.
pub fn not_reached(names: &[&'static str]) -> Vec<&'static str> {
    let reached = REACHED.lock();
    names.iter().copied().filter(|name| PARANOID && !reached.contains(name)).collect()
}

/// Panics if this process has not taken each of the named branches.
pub fn assert_reached(names: &[&'static str]) {
    let missing = not_reached(names);
    assert!(missing.is_empty(), "branches that no test took: {missing:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_reached_once_it_was_taken() {
        fn half(number: u32) -> u32 {
            if number % 2 == 1 {
                sometimes!("base: odd");
            }
            number / 2
        }
        half(2);
        assert_eq!(not_reached(&["base: odd"]), if PARANOID { vec!["base: odd"] } else { vec![] });
        assert!(std::panic::catch_unwind(|| assert_reached(&["base: odd"])).is_err());
        half(3);
        assert_reached(&["base: odd"]);
    }

    #[test]
    #[should_panic(expected = "1 is 2")]
    fn a_paranoid_check_panics_with_its_text() {
        paranoid!(1 + 1 == 1, "1 is {}", 1 + 1);
    }
}
