//! The hybrid clock that stamps commits: seconds since 1970 in the upper 32 bits, a counter in the lower ones.
//!
//! A stamp is greater than all before it, whatever the system's clock does, and greater than every time that a client has
//! shown. Stamps are allotted under the commit lock, so their order is the order of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The commit time of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The time of the record's first note; each further note has the next one. Zero in an empty record.
    pub time: u64,
    /// The system's clock: milliseconds since 1970.
    pub wall: i64,
}

/// Returns milliseconds since 1970. It may go back.
pub type SystemClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The last time that was allotted or shown.
pub(crate) struct Clock {
    last: AtomicU64,
    /// `None`: the operating system's.
    system: Option<SystemClock>,
}

fn system_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

impl Clock {
    pub(crate) fn new(system: Option<SystemClock>) -> Clock {
        Clock { last: AtomicU64::new(0), system }
    }

    /// Returns a stamp for a record with `notes` notes; it uses up at least one time.
    pub(crate) fn stamp(&self, notes: usize) -> Stamp {
        let wall = self.system_ms();
        let now = (wall.max(0) as u64 / 1000) << 32 | 1;
        let used_up = notes.max(1) as u64 - 1;
        let first_of = |last: u64| now.max(last + 1);
        let allot = |last: u64| Some(first_of(last) + used_up);
        let before = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, allot).unwrap_or_else(|last| last);
        let time = first_of(before);
        assert!(time > before, "the clock has no time after {before}");
        Stamp { time, wall }
    }

    /// Makes later stamps greater than `time`.
    pub(crate) fn advance(&self, time: u64) {
        self.last.fetch_max(time, Ordering::AcqRel);
    }

    /// Returns the system's clock: milliseconds since 1970.
    pub(crate) fn system_ms(&self) -> i64 {
        self.system.as_ref().map_or_else(system_ms, |system| system())
    }

    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1 << 32;

    fn at(system: fn() -> i64) -> Clock {
        Clock::new(Some(Arc::new(system)))
    }

    #[test]
    fn stamps_ascend_within_a_second() {
        let clock = at(|| 5_250);
        assert_eq!(clock.stamp(0), Stamp { time: 5 * SECOND + 1, wall: 5_250 });
        assert_eq!(clock.stamp(3).time, 5 * SECOND + 2);
        assert_eq!(clock.stamp(1).time, 5 * SECOND + 5);
        assert_eq!(clock.last(), 5 * SECOND + 5);
    }

    #[test]
    fn a_clock_set_back_and_a_time_from_elsewhere_do_not_turn_it_back() {
        let clock = at(|| 5_000);
        clock.advance(9 * SECOND + 7);
        assert_eq!(clock.stamp(1), Stamp { time: 9 * SECOND + 8, wall: 5_000 });
        clock.advance(2 * SECOND);
        assert_eq!(clock.stamp(1).time, 9 * SECOND + 9);
    }
}
