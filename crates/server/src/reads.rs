//! Reads of a device that no thread waits for, driven by the network workers.

use std::os::fd::BorrowedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Queues of reads; those that are added are submitted when the first of them is awaited.
pub trait Reads: Send + Sync {
    /// Returns a descriptor that becomes readable, with an edge each time, when reads are complete.
    fn event(&self) -> BorrowedFd<'_>;

    /// Wakes the tasks whose reads are complete.
    fn reap(&self);
}

/// Watches for reads that are complete. Errors: the runtime cannot, so no read may be added.
///
/// Requires: called in the runtime.
pub(crate) fn watch(reads: &'static dyn Reads) -> std::io::Result<AsyncFd<BorrowedFd<'static>>> {
    // SAFETY: the reference to the queues is static, so their descriptor is open as long as the process lives.
    #[allow(unsafe_code, reason = "tokio has no safe call for a descriptor that it does not own")]
    unsafe {
        AsyncFd::register_with_interest(reads.event(), Interest::READABLE).map_err(std::io::Error::from)
    }
}

/// Wakes the tasks whose reads are complete, until the runtime ends.
pub(crate) async fn complete(reads: &'static dyn Reads, event: AsyncFd<BorrowedFd<'static>>) {
    while let Ok(mut ready) = event.readable().await {
        // reads that complete from here on make another edge
        ready.clear_ready();
        reads.reap();
    }
}
