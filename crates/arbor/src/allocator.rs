//! The allocator of the process: jemalloc, which gives memory back soon after it is freed.
//!
//! The fractal tree allocates blocks on one thread, and another one evicts them: the C library's allocator keeps what they
//! leave free. Resident at most on 2026-11-21, with two processors and a budget of 96 MB, over a random load of 2 M rows, gets
//! and a mixed load: the C library 449 MB, mimalloc 284, jemalloc with its own settings 229, as set here 169.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// jemalloc reads its settings from this symbol: an arena for each processor, freed pages back to the system after 200 ms.
/// It is the C library's `malloc` too, so that RocksDB, WiredTiger and LMDB allocate here.
// SAFETY: the name is jemalloc's for exactly this, a pointer to text that ends with a zero.
#[allow(unsafe_code)]
#[unsafe(export_name = "malloc_conf")]
pub static SETTINGS: &[u8; 79] = b"percpu_arena:percpu,background_thread:true,dirty_decay_ms:200,muzzy_decay_ms:0\0";

/// Disables this thread's cache of free memory. A thread keeps up to 0.75 MB in it, useless to one that waits for disks
/// and is one of many: with 64 clients that was 145 MB in addition to a cache of 96 MB (2026-11-22). Network workers keep
/// theirs: without it a read by `_id` costs a tenth more.
#[allow(unsafe_code)]
pub fn without_thread_cache() {
    let mut enabled = false;
    let value = (&raw mut enabled).cast();
    // SAFETY: jemalloc reads one bool from `value`; the name ends with a zero. An error leaves the cache, which is harmless.
    unsafe {
        tikv_jemalloc_sys::mallctl(c"thread.tcache.enabled".as_ptr(), null_mut(), null_mut(), value, size_of::<bool>());
    }
}

/// Returns what is free to the system, of all arenas, instead of after 200 ms.
#[allow(unsafe_code)]
pub fn purge() {
    // `arena.<MALLCTL_ARENAS_ALL>.purge`
    let name = c"arena.4096.purge".as_ptr();
    // SAFETY: the call takes and gives no value; the name ends with a zero.
    unsafe {
        tikv_jemalloc_sys::mallctl(name, null_mut(), null_mut(), null_mut(), 0);
    }
}

/// Bytes that this thread has allocated, less what it has freed.
#[allow(unsafe_code)]
pub fn thread_allocated() -> u64 {
    thread_local!(static COUNTERS: [Option<&'static AtomicU64>; 2] = [c"thread.allocatedp", c"thread.deallocatedp"].map(counter));
    let read = |counter: Option<&AtomicU64>| counter.map_or(0, |counter| counter.load(Ordering::Relaxed));
    COUNTERS.try_with(|[allocated, freed]| read(*allocated).wrapping_sub(read(*freed))).unwrap_or(0)
}

/// A counter of this thread, which jemalloc keeps as long as the thread lives.
#[allow(unsafe_code)]
fn counter(name: &CStr) -> Option<&'static AtomicU64> {
    let mut place: *mut u64 = null_mut();
    let mut size = size_of::<*mut u64>();
    // SAFETY: jemalloc writes one pointer to `place`; the name ends with a zero.
    let failed =
        unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), (&raw mut place).cast(), &raw mut size, null_mut(), 0) };
    // SAFETY: the counter is an aligned u64 that lives as long as the thread; the reference stays in the thread's own storage.
    if failed == 0 && !place.is_null() { Some(unsafe { AtomicU64::from_ptr(place) }) } else { None }
}
