//! Allocations of the work of one thread, as the process allocator reports them.

use std::sync::OnceLock;

/// Bytes that the calling thread has allocated, less what it has freed; below zero it wraps around.
type Meter = fn() -> u64;

static METER: OnceLock<Meter> = OnceLock::new();

/// Sets the meter of allocated bytes. Only the first call counts; without a meter, nothing is known to be allocated.
pub fn set_thread_meter(meter: Meter) {
    let _first_counts = METER.set(meter);
}

/// A moment in the work of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated(u64);

impl Allocated {
    /// No moment: nothing counts as allocated since.
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
