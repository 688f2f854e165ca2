//! Counts of connections, requests and bytes. Raised on every request, so each count is sharded.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arbor_base::ShardedCounter;

#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) open: AtomicUsize,
    pub(crate) created: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) bytes_in: ShardedCounter,
    pub(crate) bytes_out: ShardedCounter,
    pub(crate) requests: ShardedCounter,
    pub(crate) requests_pooled: ShardedCounter,
    pub(crate) panics: AtomicU64,
    pub(crate) slow_frames: AtomicU64,
    pub(crate) without_memory: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub connections_open: usize,
    pub connections_created: u64,
    pub connections_rejected: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub requests: u64,
    /// Requests that ran on the blocking pool.
    pub requests_pooled: u64,
    pub panics: u64,
    /// Connections closed because a frame did not arrive in time, or a reply was not read in time while memory was scarce.
    pub slow_frames: u64,
    /// Connections closed because there was no memory for a message in time.
    pub without_memory: u64,
}

impl Metrics {
    pub fn figures(&self) -> Figures {
        Figures {
            connections_open: self.open.load(Ordering::Relaxed),
            connections_created: self.created.load(Ordering::Relaxed),
            connections_rejected: self.rejected.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.sum(),
            bytes_out: self.bytes_out.sum(),
            requests: self.requests.sum(),
            requests_pooled: self.requests_pooled.sum(),
            panics: self.panics.load(Ordering::Relaxed),
            slow_frames: self.slow_frames.load(Ordering::Relaxed),
            without_memory: self.without_memory.load(Ordering::Relaxed),
        }
    }
}
