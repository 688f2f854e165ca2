//! Counts of connections, requests and bytes. Raised on every request, so each count is sharded.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arbor_base::ShardedCounter;
use arbor_protocol::transport::NetworkStatistics;

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
    pub(crate) silent: AtomicU64,
    pub(crate) tls_failed: AtomicU64,
    pub(crate) slow_frames: AtomicU64,
    pub(crate) without_memory: AtomicU64,
}

impl Metrics {
    pub fn statistics(&self) -> NetworkStatistics {
        NetworkStatistics {
            connections_open: self.open.load(Ordering::Relaxed),
            connections_created: self.created.load(Ordering::Relaxed),
            connections_rejected: self.rejected.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.sum(),
            bytes_out: self.bytes_out.sum(),
            requests: self.requests.sum(),
            requests_pooled: self.requests_pooled.sum(),
            panics: self.panics.load(Ordering::Relaxed),
            silent: self.silent.load(Ordering::Relaxed),
            tls_failed: self.tls_failed.load(Ordering::Relaxed),
            slow_frames: self.slow_frames.load(Ordering::Relaxed),
            without_memory: self.without_memory.load(Ordering::Relaxed),
        }
    }
}
