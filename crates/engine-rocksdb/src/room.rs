//! Throttling of writers: before the commit path takes its locks, instead of inside RocksDB's write.
//!
//! | state | writers |
//! |---|---|
//! | memtables hold more than `memtables_max` times `memtable_bytes`, or RocksDB stopped writes | wait in steps, [`WAIT_MAX`] at most |
//! | a compaction is behind with more files of the first level than the cache has room for one large value of each | the same |
//! | RocksDB delays writes | sleep for as long as the last group takes at RocksDB's rate, [`DELAY_MAX`] at most |
//! | memtables are filled beyond half of that | sleep for up to [`FILL_DELAY_MAX`], growing |
//!
//! RocksDB counts time that passes as credit, so it does not delay the write again.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::core::Core;

const WAIT_MAX: Duration = Duration::from_secs(5);
const DELAY_MAX: Duration = Duration::from_millis(100);
const FILL_DELAY_MAX: Duration = Duration::from_millis(10);
/// Smaller values are no matter.
const LARGE_VALUE_BYTES: u64 = 1 << 20;
/// With fewer files in the first level RocksDB begins no compaction.
const FILES_MIN: u64 = 4;
const STEP_MIN: Duration = Duration::from_millis(1);
const STEP_MAX: Duration = Duration::from_millis(10);

impl Core {
    pub(crate) fn wait_for_room(&self) {
        let begin = Instant::now();
        let mut step = STEP_MIN;
        while self.is_stopped() && begin.elapsed() < WAIT_MAX {
            self.alarm.ring();
            std::thread::sleep(step);
            step = (step * 2).min(STEP_MAX);
        }
        let delay = self.delay();
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let waited = begin.elapsed();
        if waited >= STEP_MIN {
            self.counters.room_us.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
        }
    }

    fn is_stopped(&self) -> bool {
        self.memtables_bytes() > self.unflushed_bytes_max()
            || self.db.property(c"rocksdb.is-write-stopped") > 0
            || self.is_compaction_behind()
    }

    /// A compaction holds a row of each file that it reads, and a large value makes a file of its own.
    fn is_compaction_behind(&self) -> bool {
        let largest = self.largest_value_bytes.load(Ordering::Relaxed);
        if largest < LARGE_VALUE_BYTES {
            return false;
        }
        let files = self.db.report(c"rocksdb.num-files-at-level0").trim().parse::<u64>().unwrap_or(0);
        let compacts = || {
            self.db.property(c"rocksdb.num-running-compactions") > 0
                || self.db.property(c"rocksdb.compaction-pending") > 0
        };
        files > FILES_MIN && files * largest > self.db.cache_bytes_max() && compacts()
    }

    fn delay(&self) -> Duration {
        let rate = self.db.property(c"rocksdb.actual-delayed-write-rate");
        if rate > 0 {
            let seconds = self.last_write_bytes.load(Ordering::Relaxed) as f64 / rate as f64;
            return Duration::from_secs_f64(seconds.min(DELAY_MAX.as_secs_f64()));
        }
        fill_delay(self.memtables_bytes(), self.unflushed_bytes_max())
    }
}

/// Grows from nothing, when memory is half full.
fn fill_delay(unflushed_bytes: u64, most_bytes: u64) -> Duration {
    let half = (most_bytes / 2).max(1);
    let share = unflushed_bytes.saturating_sub(half) as f64 / half as f64;
    FILL_DELAY_MAX.mul_f64(share.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_with_the_fill() {
        let check = |filled, micros| assert_eq!(fill_delay(filled, 1000), Duration::from_micros(micros), "{filled}");
        check(0, 0);
        check(500, 0);
        check(600, 2000);
        check(1000, 10_000);
        check(5000, 10_000);
    }
}
