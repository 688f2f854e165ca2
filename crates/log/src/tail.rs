//! The log's end as appenders and the background thread see it, and the alarm between the two when there is something to sync.
//!
//! T1: an appender moves the end and then takes the alarm (sets it, and rings if it was not set); the background thread, when
//! a sync has ended, resets the alarm and then reads the end. Both change the alarm by a swap: of two swaps the later
//! one sees all that was written before the earlier one. So either the appender finds the alarm reset, or the thread sees
//! the new end. With a store in the place of the thread's swap an append could stay without a sync until the next one.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64};

#[derive(Debug)]
pub(crate) struct Tail {
    /// Position of the last record.
    appended: AtomicU64,
    /// The background thread knows that there is something to sync.
    alarmed: AtomicBool,
}

impl Tail {
    pub(crate) fn new(appended: u64) -> Tail {
        Tail { appended: AtomicU64::new(appended), alarmed: AtomicBool::new(false) }
    }

    pub(crate) fn appended(&self) -> u64 {
        self.appended.load(Acquire)
    }

    pub(crate) fn advance(&self, appended: u64) {
        debug_assert!(self.appended() <= appended, "the end of the log moves back to {appended}");
        self.appended.store(appended, Release);
    }

    /// Moves the end back: records were cut off.
    pub(crate) fn retreat(&self, appended: u64) {
        self.appended.store(appended, Release);
    }

    /// Called after [`Tail::advance`]. Returns true if the background thread must be alarmed.
    #[must_use]
    pub(crate) fn take_alarm(&self) -> bool {
        !self.alarmed.swap(true, AcqRel)
    }

    /// The next append alarms again. Returns true if one that came in between must be alarmed here.
    #[must_use]
    pub(crate) fn give_back_alarm(&self, durable: u64) -> bool {
        self.alarmed.swap(false, AcqRel);
        durable < self.appended() && self.take_alarm()
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p arbor-log --release --lib loom_`
#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;

    use super::*;

    #[test]
    fn loom_every_append_is_alarmed() {
        loom::model(|| {
            let tail = Arc::new(Tail::new(1));
            // The thread was alarmed for record 1, which is durable now.
            assert!(tail.take_alarm());
            let appender = tail.clone();
            let appender = loom::thread::spawn(move || {
                appender.advance(2);
                appender.take_alarm()
            });
            let rearmed = tail.give_back_alarm(1);
            assert!(appender.join().unwrap() != rearmed, "one of the two alarms");
        });
    }
}
