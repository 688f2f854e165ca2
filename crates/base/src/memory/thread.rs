//! What the work of one thread has allocated, as far as the allocator of the process tells.

use std::sync::OnceLock;

/// Bytes that the calling thread has allocated, less what it has freed; below zero it wraps around.
type Meter = fn() -> u64;

static METER: OnceLock<Meter> = OnceLock::new();

/// Says how to find out. The first call counts; without any, nothing is known to be allocated.
pub fn set_thread_meter(meter: Meter) {
    let _first_counts = METER.set(meter);
}

/// A moment in the work of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated(u64);

impl Allocated {
    /// No moment.
    pub const NOTHING: Allocated = Allocated(u64::MAX);

    pub fn now() -> Allocated {
        Allocated(METER.get().map_or(0, |meter| meter()))
    }

    /// Bytes that this thread has allocated and not freed since. Requires the same thread.
    pub fn since(self) -> u64 {
        let more = Allocated::now().0.wrapping_sub(self.0);
        u64::try_from(more as i64).unwrap_or(0)
    }
}
