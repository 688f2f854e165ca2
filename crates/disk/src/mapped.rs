//! A part of a file in the memory of this process, written to without system calls.
//!
//! A store into a mapped page that the file system cannot take (a failing device, a file that was cut) is a SIGBUS. A handler puts
//! anonymous memory in the place of the mapping, so that the store continues, and notes it; [`Window::write`] then returns an error.
//! Any other SIGBUS goes to the handler that was there before.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

thread_local! {
    /// Address and length of the window that this thread writes to.
    static WRITTEN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// A mapped range of a file.
#[derive(Debug)]
pub(crate) struct Window {
    memory: NonNull<u8>,
    begin: u64,
    len: usize,
}

// SAFETY: the memory belongs to the window alone, and no method keeps a part of it.
unsafe impl Send for Window {}

impl Window {
    /// Maps `begin .. begin + len` of `file`, which is at least as long. `begin`: a multiple of the size of a page.
    pub(crate) fn map(file: &File, begin: u64, len: usize) -> io::Result<Window> {
        handler()?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, offset) = (file.as_raw_fd(), begin as libc::off_t);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, offset) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the mapping that was just made. A hint, whose failure changes nothing.
        unsafe { libc::madvise(address, len, libc::MADV_RANDOM) };
        let memory = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Window { memory, begin, len })
    }

    /// Returns true if the bytes `offset .. offset + len` of the file are in the window.
    pub(crate) fn holds(&self, offset: u64, len: usize) -> bool {
        let within = offset.checked_sub(self.begin).is_some_and(|at| at <= self.len as u64);
        within && len as u64 <= self.len as u64 - (offset - self.begin)
    }

    /// Writes bytes that the window holds. After an error any part may have been written, and the window is of no use any more.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        assert!(self.holds(offset, bytes.len()), "{} bytes at {offset} are outside of the window", bytes.len());
        FAILED.set(false);
        WRITTEN.set((self.memory.as_ptr() as usize, self.len));
        compiler_fence(SeqCst);
        // SAFETY: the range is inside the mapping, as asserted, and `&mut self` excludes other writers of it. Where a page cannot be
        // written, the handler puts memory there that can.
        unsafe {
            let target = self.memory.as_ptr().add((offset - self.begin) as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        compiler_fence(SeqCst);
        WRITTEN.set((0, 0));
        if FAILED.get() { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

/// The handler that SIGBUS had before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once for the process.
fn handler() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: both structures are valid for the call; that of zeros is a valid value, of which all fields that matter are set.
        unsafe {
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), before.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
            }
            // Before the handler is there: it finds what it passes signals on to.
            let _ = BEFORE.set(before.assume_init());
            let mut ours: libc::sigaction = MaybeUninit::zeroed().assume_init();
            ours.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigemptyset(&mut ours.sa_mask);
            match libc::sigaction(libc::SIGBUS, &ours, std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
            }
        }
    });
    installed.map_err(io::Error::from_raw_os_error)
}

/// Only what is allowed in a handler of a signal: system calls, and thread-local values without a destructor.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (begin, len) = WRITTEN.get();
    // SAFETY: the kernel passes valid information with a signal; it has an address for SIGBUS. The memory that is replaced is the
    // window that this thread is writing to.
    unsafe {
        let address = (*info).si_addr() as usize;
        if address.wrapping_sub(begin) < len {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            if libc::mmap(begin as *mut libc::c_void, len, protection, flags, -1, 0) != libc::MAP_FAILED {
                FAILED.set(true);
                return;
            }
        }
        match BEFORE.get() {
            Some(before) if before.sa_sigaction == libc::SIG_IGN || before.sa_sigaction == libc::SIG_DFL => {
                // The instruction is executed again, and ends the process.
                let mut default: libc::sigaction = MaybeUninit::zeroed().assume_init();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, std::ptr::null_mut());
            }
            Some(before) if before.sa_flags & libc::SA_SIGINFO != 0 => {
                type Action = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                let action = std::mem::transmute::<usize, Action>(before.sa_sigaction);
                action(signal, info, context);
            }
            Some(before) => {
                let action = std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(before.sa_sigaction);
                action(signal);
            }
            None => libc::abort(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_written_is_in_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * 4096).unwrap();
        let mut window = Window::map(&file, 4096, 8192).unwrap();
        window.write(b"first", 4096).unwrap();
        window.write(b"last", 3 * 4096 - 4).unwrap();
        let mut seen = [0; 5];
        file.read_exact_at(&mut seen, 4096).unwrap();
        assert_eq!(&seen, b"first");
        file.read_exact_at(&mut seen[..4], 3 * 4096 - 4).unwrap();
        assert_eq!(&seen[..4], b"last");
        assert!(window.holds(4096, 8192) && window.holds(3 * 4096, 0));
        assert!(!window.holds(4095, 1) && !window.holds(4096, 8193) && !window.holds(3 * 4096 + 1, 0));
    }

    #[test]
    fn a_page_that_cannot_be_written_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mut window = Window::map(&file, 0, 8192).unwrap();
        window.write(b"one", 0).unwrap();
        // The same fault as that of a device which fails: no page of the file is behind the address.
        file.set_len(0).unwrap();
        let failed = window.write(&[1; 5000], 10).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EIO));
        drop(window);
        file.set_len(8192).unwrap();
        let mut window = Window::map(&file, 0, 8192).unwrap();
        window.write(b"two", 4096).unwrap();
        let mut seen = [0; 3];
        file.read_exact_at(&mut seen, 4096).unwrap();
        assert_eq!(&seen, b"two");
    }
}
