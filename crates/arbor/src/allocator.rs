//! The allocator of the process: jemalloc, which gives memory back soon after it is freed.
//!
//! The fractal tree allocates blocks on one thread, and another one evicts them: the C library's allocator keeps what they
//! leave free. Resident at most on 2026-11-21, with two processors and a budget of 96 MB, over a random load of 2 M rows, gets
//! and a mixed load: the C library 449 MB, mimalloc 284, jemalloc with its own settings 229, as set here 169.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// jemalloc reads its settings from this symbol: an arena for each processor and one for allocations from half a MiB on, freed pages
/// back to the system after 200 ms, and threads keep free memory of small allocations only: a thread keeps up to 0.75 MB otherwise, and
/// YCSB C with 64 clients in 50 threads had 148 MB resident with all sizes, 127 with these (2026-11-29). [`large_thread_cache`] is for the few
/// threads that build replies.
/// It is the C library's `malloc` too, so that RocksDB, WiredTiger and LMDB allocate here.
// SAFETY: the name is jemalloc's for exactly this, a pointer to text that ends with a zero.
#[unsafe(export_name = "malloc_conf")]
pub(crate) static SETTINGS: &[u8; 121] =
    b"percpu_arena:percpu,background_thread:true,dirty_decay_ms:200,muzzy_decay_ms:0,oversize_threshold:524288,tcache_max:1024\0";

/// As in [`SETTINGS`].
const LARGE_BYTES_MIN: usize = 512 << 10;

/// Has allocations of half a MiB and more returned to the system when they are freed, instead of after 200 ms: a batch that grows
/// by doubling leaves as much behind as it holds, and on a busy machine the thread that returns it may run late. It costs
/// a page fault for each page of the next one, so it is for servers with a small memory limit. Returns false if jemalloc does not.
pub(crate) fn return_large_at_once() -> bool {
    let large = std::hint::black_box(Vec::<u8>::with_capacity(2 * LARGE_BYTES_MIN));
    let (mut address, mut arena, mut arena_bytes) = (large.as_ptr(), 0u32, size_of::<u32>());
    // SAFETY: jemalloc reads one pointer from `address` and writes one u32 to `arena`; the name ends with a zero.
    let unknown = unsafe {
        let (arena, address) = ((&raw mut arena).cast(), (&raw mut address).cast());
        tikv_jemalloc_sys::mallctl(
            c"arenas.lookup".as_ptr(),
            arena,
            &raw mut arena_bytes,
            address,
            size_of::<*const u8>(),
        )
    };
    let Ok(name) = CString::new(format!("arena.{arena}.dirty_decay_ms")) else { return false };
    let mut at_once = 0isize;
    // SAFETY: jemalloc reads one isize from `at_once`; the name ends with a zero.
    let refused = unknown != 0
        || 0 != unsafe {
            let value = (&raw mut at_once).cast();
            tikv_jemalloc_sys::mallctl(name.as_ptr(), null_mut(), null_mut(), value, size_of::<isize>())
        };
    !refused
}

/// Has this thread keep free memory of allocations of up to 32 KB, which is jemalloc's default.
// PERF: the reads of sysbench, 64 clients, three servers in turn by the second, CPU of the server per request compared with a build of before
// the bound of 1 KB: 1.03 with 1 KB in all threads, 0.98 as here; 8 MB more resident (2026-11-30).
pub(crate) fn large_thread_cache() {
    let mut bytes_max = 32usize << 10;
    let value = (&raw mut bytes_max).cast();
    // SAFETY: jemalloc reads one size_t from `value`; the name ends with a zero. An error leaves the cache as it is, which is harmless.
    unsafe {
        tikv_jemalloc_sys::mallctl(c"thread.tcache.max".as_ptr(), null_mut(), null_mut(), value, size_of::<usize>());
    }
}

/// Gives what this thread's cache has back to the arenas.
pub(crate) fn empty_thread_cache() {
    // SAFETY: the call takes and gives no value; the name ends with a zero.
    unsafe {
        tikv_jemalloc_sys::mallctl(c"thread.tcache.flush".as_ptr(), null_mut(), null_mut(), null_mut(), 0);
    }
}

/// Returns what is free to the system, of all arenas, instead of after 200 ms.
pub(crate) fn purge() {
    // `arena.<MALLCTL_ARENAS_ALL>.purge`
    let name = c"arena.4096.purge".as_ptr();
    // SAFETY: the call takes and gives no value; the name ends with a zero.
    unsafe {
        tikv_jemalloc_sys::mallctl(name, null_mut(), null_mut(), null_mut(), 0);
    }
}

/// Bytes that this thread has allocated, less what it has freed.
pub(crate) fn thread_allocated() -> u64 {
    thread_local!(static COUNTERS: [Option<&'static AtomicU64>; 2] = [c"thread.allocatedp", c"thread.deallocatedp"].map(counter));
    let read = |counter: Option<&AtomicU64>| counter.map_or(0, |counter| counter.load(Ordering::Relaxed));
    COUNTERS.try_with(|[allocated, freed]| read(*allocated).wrapping_sub(read(*freed))).unwrap_or(0)
}

/// A counter of this thread, which jemalloc keeps as long as the thread lives.
fn counter(name: &CStr) -> Option<&'static AtomicU64> {
    let mut place: *mut u64 = null_mut();
    let mut size = size_of::<*mut u64>();
    // SAFETY: jemalloc writes one pointer to `place`; the name ends with a zero.
    let failed =
        unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), (&raw mut place).cast(), &raw mut size, null_mut(), 0) };
    // SAFETY: the counter is an aligned u64 that lives as long as the thread; the reference stays in the thread's own storage.
    if failed == 0 && !place.is_null() { Some(unsafe { AtomicU64::from_ptr(place) }) } else { None }
}

/// Bytes allocated, in active pages, resident, mapped and retained, of the whole process. Empty if jemalloc does not count them.
pub(crate) fn statistics() -> Vec<(&'static str, u64)> {
    let mut epoch = 1u64;
    // SAFETY: jemalloc reads one u64 from `epoch`, and brings its statistics up to date; the name ends with a zero.
    unsafe {
        tikv_jemalloc_sys::mallctl(
            c"epoch".as_ptr(),
            null_mut(),
            null_mut(),
            (&raw mut epoch).cast(),
            size_of::<u64>(),
        );
    }
    let names: [(&'static str, &CStr); 5] = [
        ("allocated", c"stats.allocated"),
        ("active", c"stats.active"),
        ("resident", c"stats.resident"),
        ("mapped", c"stats.mapped"),
        ("retained", c"stats.retained"),
    ];
    let read = |(name, of): (&'static str, &CStr)| {
        let (mut bytes, mut size) = (0usize, size_of::<usize>());
        // SAFETY: jemalloc writes one usize to `bytes`; the name ends with a zero.
        let failed =
            unsafe { tikv_jemalloc_sys::mallctl(of.as_ptr(), (&raw mut bytes).cast(), &raw mut size, null_mut(), 0) };
        (failed == 0).then_some((name, bytes as u64))
    };
    names.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_is_returned_when_it_is_freed() {
        const PIECES: usize = 32;
        assert!(return_large_at_once());
        let resident = arbor_base::memory::machine::resident_anonymous;
        let pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![7; 2 * LARGE_BYTES_MIN]).collect();
        let before = resident();
        drop(std::hint::black_box(pieces));
        let returned = before.saturating_sub(resident());
        let freed = (PIECES * 2 * LARGE_BYTES_MIN) as u64;
        assert!(returned > freed / 2, "{returned} of {freed} bytes were returned");
    }
}
