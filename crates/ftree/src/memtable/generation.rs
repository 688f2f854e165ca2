//! State shared by the parts of one memtable.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::filter::MemFilter;
use crate::cache::Charge;

pub(super) struct Generation {
    filter: MemFilter,
    bytes: AtomicU64,
    /// Bytes of the parts' structures.
    parts_bytes: AtomicU64,
    /// For the parts and the filter; released when the last part goes.
    charge: Option<Mutex<Charge>>,
}

impl Generation {
    /// `charge`: what the memory is charged to.
    pub(super) fn new(limit_bytes: u64, charge: Option<Charge>) -> Generation {
        let generation = Generation {
            filter: MemFilter::new(limit_bytes),
            bytes: AtomicU64::new(0),
            parts_bytes: AtomicU64::new(0),
            charge: charge.map(Mutex::new),
        };
        generation.grow(0);
        generation
    }

    pub(super) fn filter(&self) -> &MemFilter {
        &self.filter
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes that the parts take more memory. Parts grow by whole chunks, so this is not called per entry.
    pub(super) fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.charge();
    }

    /// Notes one more part, of this many bytes without its entries.
    pub(super) fn add_part(&self, bytes: u64) {
        self.parts_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.charge();
    }

    fn charge(&self) {
        if let Some(charge) = &self.charge {
            let bytes = self.bytes() + self.parts_bytes.load(Ordering::Relaxed) + self.filter.bytes();
            charge.lock().resize(bytes);
        }
    }
}
