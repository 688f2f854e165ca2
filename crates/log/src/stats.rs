//! Statistics of the log, for serverStatus and the laboratory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arbor_base::Position;

/// Statistics of the log, not read as one atomic snapshot. Counts are since opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    pub first: Position,
    pub appended: Position,
    pub durable: Position,
    pub segments: u64,
    /// Bytes of all segment files.
    pub disk_bytes: u64,
    pub groups: u64,
    pub records: u64,
    /// Bytes appended, headers included.
    pub bytes: u64,
    pub fsyncs: u64,
    pub fsync_micros: u64,
    pub fsync_micros_max: u64,
    /// Segments removed since the start, and the time that took.
    pub segments_trimmed: u64,
    pub trim_micros: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    groups: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    fsyncs: AtomicU64,
    fsync_micros: AtomicU64,
    fsync_micros_max: AtomicU64,
    segments_trimmed: AtomicU64,
    trim_micros: AtomicU64,
}

impl Counters {
    pub(crate) fn appended(&self, records: u64, bytes: u64) {
        self.groups.fetch_add(1, Relaxed);
        self.records.fetch_add(records, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn synced(&self, took: Duration) {
        let micros = took.as_micros() as u64;
        self.fsyncs.fetch_add(1, Relaxed);
        self.fsync_micros.fetch_add(micros, Relaxed);
        self.fsync_micros_max.fetch_max(micros, Relaxed);
    }

    pub(crate) fn trimmed(&self, took: Duration) {
        self.segments_trimmed.fetch_add(1, Relaxed);
        self.trim_micros.fetch_add(took.as_micros() as u64, Relaxed);
    }

    pub(crate) fn fill(&self, stats: LogStats) -> LogStats {
        LogStats {
            groups: self.groups.load(Relaxed),
            records: self.records.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            fsyncs: self.fsyncs.load(Relaxed),
            fsync_micros: self.fsync_micros.load(Relaxed),
            fsync_micros_max: self.fsync_micros_max.load(Relaxed),
            segments_trimmed: self.segments_trimmed.load(Relaxed),
            trim_micros: self.trim_micros.load(Relaxed),
            ..stats
        }
    }
}
