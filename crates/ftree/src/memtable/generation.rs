//! What the parts of one memtable share.

use std::sync::atomic::{AtomicU64, Ordering};

use super::filter::MemFilter;

pub(super) struct Generation {
    filter: MemFilter,
    bytes: AtomicU64,
}

impl Generation {
    pub fn new(limit_bytes: u64) -> Generation {
        Generation { filter: MemFilter::new(limit_bytes), bytes: AtomicU64::new(0) }
    }

    pub fn filter(&self) -> &MemFilter {
        &self.filter
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
