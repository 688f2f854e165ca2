//! A disk that is full: writes that would take more space than is left fail with ENOSPC, or write only what fits.
//!
//! The functions below take the place of those of libc for the whole process, so that LMDB (linked statically) and std call
//! them. Only the thread that called [`leave_free`] is concerned; the engine under test has no other.
#![allow(unsafe_code, reason = "system calls are replaced by ones that fail")]

use std::cell::Cell;

use libc::{c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};

thread_local! {
    /// Bytes that files may still grow by; `None`: any number.
    static FREE: Cell<Option<u64>> = const { Cell::new(None) };
    /// A write of which a part fits is made in part instead of not at all.
    static SHORT: Cell<bool> = const { Cell::new(false) };
}

/// Lets files grow by that many bytes and no more; `short`: as far as they fit.
pub(super) fn leave_free(bytes: u64, short: bool) {
    FREE.set(Some(bytes));
    SHORT.set(short);
}

pub(super) fn free_all() {
    FREE.set(None);
}

pub(super) fn is_limited() -> bool {
    FREE.get().is_some()
}

/// Runs without the limit: the checks of images take none of the space.
pub(super) fn without_limit<T>(work: impl FnOnce() -> T) -> T {
    let free = FREE.take();
    let result = work();
    FREE.set(free);
    result
}

/// Returns how many of the bytes from `begin` on can be written to a file; `None`: none at all.
fn writable(fd: c_int, begin: u64, count: u64) -> Option<u64> {
    let Some(free) = FREE.get() else { return Some(count) };
    // SAFETY: `stat` is plain data, which fstat fills.
    let length = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut stat) != 0 { 0 } else { stat.st_size as u64 }
    };
    let grown = (begin + count).saturating_sub(length.max(begin));
    if grown <= free {
        FREE.set(Some(free - grown));
        return Some(count);
    }
    let fits = count - (grown - free);
    FREE.set(Some(0));
    if SHORT.get() && fits > 0 {
        return Some(fits);
    }
    // SAFETY: errno belongs to the thread.
    unsafe { *libc::__errno_location() = libc::ENOSPC };
    None
}

/// The position of a descriptor; what has none does not grow.
fn position(fd: c_int) -> Option<u64> {
    // SAFETY: the call has no memory of ours.
    let position: c_long = unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) };
    u64::try_from(position).ok()
}

// SAFETY (of all): the signatures are libc's, the arguments are handed on as they came, with at most as many bytes.
#[unsafe(no_mangle)]
extern "C" fn pwrite(fd: c_int, bytes: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    match writable(fd, offset as u64, count as u64) {
        Some(count) => unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, offset) as ssize_t },
        None => -1,
    }
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    pwrite(fd, bytes, count, offset)
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    let writable = position(fd).map_or(Some(count as u64), |begin| writable(fd, begin, count as u64));
    match writable {
        Some(count) => unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) as ssize_t },
        None => -1,
    }
}

#[unsafe(no_mangle)]
extern "C" fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let whole = || unsafe { libc::syscall(libc::SYS_writev, fd, vectors, count) as ssize_t };
    let Some(begin) = position(fd) else { return whole() };
    // SAFETY: the caller has `count` vectors there.
    let vectors = unsafe { std::slice::from_raw_parts(vectors, count as usize) };
    let bytes: u64 = vectors.iter().map(|vector| vector.iov_len as u64).sum();
    match writable(fd, begin, bytes) {
        Some(all) if all == bytes => whole(),
        // In part: the first ones that fit whole, and the beginning of the next.
        Some(mut left) => {
            let mut written = 0;
            for vector in vectors {
                let part = left.min(vector.iov_len as u64);
                let done = unsafe { libc::syscall(libc::SYS_write, fd, vector.iov_base, part) as ssize_t };
                if done < 0 {
                    return done;
                }
                (written, left) = (written + done, left - done as u64);
                if left == 0 {
                    break;
                }
            }
            written
        }
        None => -1,
    }
}
