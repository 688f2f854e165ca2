//! Statistics, by names that stay.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use arbor_engine::EngineStats;

use crate::core::Core;

/// RocksDB's properties, by the names that they have there.
const PROPERTIES: &[(&str, &CStr)] = &[
    ("memtable_bytes", c"rocksdb.cur-size-all-mem-tables"),
    ("memtable_rows", c"rocksdb.num-entries-active-mem-table"),
    ("sealed_memtables", c"rocksdb.num-immutable-mem-table"),
    ("cache_capacity_bytes", c"rocksdb.block-cache-capacity"),
    ("cache_bytes", c"rocksdb.block-cache-usage"),
    ("cache_pinned_bytes", c"rocksdb.block-cache-pinned-usage"),
    ("table_reader_bytes", c"rocksdb.estimate-table-readers-mem"),
    ("live_bytes", c"rocksdb.estimate-live-data-size"),
    ("estimated_rows", c"rocksdb.estimate-num-keys"),
    ("pending_compaction_bytes", c"rocksdb.estimate-pending-compaction-bytes"),
    ("running_compactions", c"rocksdb.num-running-compactions"),
    ("running_flushes", c"rocksdb.num-running-flushes"),
    ("background_errors", c"rocksdb.background-errors"),
    ("held_snapshots", c"rocksdb.num-snapshots"),
    ("write_stopped", c"rocksdb.is-write-stopped"),
    ("delayed_write_rate", c"rocksdb.actual-delayed-write-rate"),
    ("base_level", c"rocksdb.base-level"),
];

const LEVELS: &[(&str, &CStr)] = &[
    ("level0_files", c"rocksdb.num-files-at-level0"),
    ("level1_files", c"rocksdb.num-files-at-level1"),
    ("level2_files", c"rocksdb.num-files-at-level2"),
    ("level3_files", c"rocksdb.num-files-at-level3"),
    ("level4_files", c"rocksdb.num-files-at-level4"),
    ("level5_files", c"rocksdb.num-files-at-level5"),
    ("level6_files", c"rocksdb.num-files-at-level6"),
];

/// RocksDB's counters since the engine was opened; only with `RocksOptions::counters`.
const COUNTERS: &[(&str, &str)] = &[
    ("cache_hits", "rocksdb.block.cache.hit"),
    ("cache_misses", "rocksdb.block.cache.miss"),
    ("cache_read_in_bytes", "rocksdb.block.cache.bytes.write"),
    ("bloom_useful", "rocksdb.bloom.filter.useful"),
    ("memtable_hits", "rocksdb.memtable.hit"),
    ("rows_read", "rocksdb.number.keys.read"),
    ("rows_written", "rocksdb.number.keys.written"),
    ("bytes_read", "rocksdb.bytes.read"),
    ("bytes_written", "rocksdb.bytes.written"),
    ("compaction_read_bytes", "rocksdb.compact.read.bytes"),
    ("compaction_written_bytes", "rocksdb.compact.write.bytes"),
    ("flush_written_bytes", "rocksdb.flush.write.bytes"),
    ("stall_us", "rocksdb.stall.micros"),
];

impl Core {
    pub(crate) fn stats(&self) -> EngineStats {
        let total = self.db.property(c"rocksdb.total-sst-files-size");
        EngineStats {
            disk_bytes: total,
            // Files of old versions that snapshots or iterators still hold.
            free_bytes: total.saturating_sub(self.db.property(c"rocksdb.live-sst-files-size")),
            cache_bytes: self.db.cache_bytes() + self.db.property(c"rocksdb.cur-size-all-mem-tables"),
            counters: self.all_counters(),
        }
    }

    fn all_counters(&self) -> Vec<(&'static str, u64)> {
        let counters = &self.counters;
        let mut all = vec![
            ("trees", self.lock_writer().trees.len() as u64),
            ("unflushed_bytes", self.unflushed_bytes.load(Ordering::Relaxed)),
            ("writes", counters.writes.load(Ordering::Relaxed)),
            ("checkpoints", counters.checkpoints.load(Ordering::Relaxed)),
            ("checkpoint_ms", counters.checkpoint_ms.load(Ordering::Relaxed)),
            ("checkpoint_errors", counters.background_errors.load(Ordering::Relaxed)),
            ("swept_trees", counters.swept_trees.load(Ordering::Relaxed)),
            ("manual_compactions", counters.manual_compactions.load(Ordering::Relaxed)),
            ("manual_compaction_running", u64::from(self.is_compacting())),
            ("room_us", counters.room_us.load(Ordering::Relaxed)),
        ];
        all.extend(PROPERTIES.iter().map(|(name, property)| (*name, self.db.property(property))));
        all.extend(LEVELS.iter().map(|(name, level)| (*name, self.db.report(level).trim().parse().unwrap_or(0))));
        if self.options.counters {
            let text = self.db.counters();
            all.extend(COUNTERS.iter().map(|(name, counter)| (*name, count_in(&text, counter))));
        }
        all
    }
}

/// A counter in RocksDB's report, whose lines are `name COUNT : number`.
fn count_in(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" COUNT : "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found() {
        let text = "rocksdb.block.cache.miss COUNT : 12\nrocksdb.block.cache.hit COUNT : 34\nrocksdb.x P50 : 1.0\n";
        assert_eq!(count_in(text, "rocksdb.block.cache.hit"), 34);
        assert_eq!(count_in(text, "rocksdb.block.cache"), 0);
        assert_eq!(count_in(text, "rocksdb.x"), 0);
    }
}
