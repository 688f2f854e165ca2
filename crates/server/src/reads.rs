//! Reads of a device that no thread waits for, driven by the network workers.

use std::os::fd::BorrowedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Queues of reads.
pub trait Reads: Send + Sync {
    /// Returns a descriptor that becomes readable, with an edge each time, when reads are complete.
    fn event(&self) -> BorrowedFd<'_>;

    /// Hands the reads that were added to the device. Errors: it takes none now.
    fn submit(&self) -> std::io::Result<()>;

    /// Wakes the tasks whose reads are complete.
    fn reap(&self);
}

/// Wakes the tasks whose reads are complete, until the runtime ends.
pub(crate) async fn complete(reads: &'static dyn Reads) {
    // SAFETY: the reference to the queues is static, so their descriptor is open as long as the process lives.
    #[allow(unsafe_code, reason = "tokio has no safe call for a descriptor that it does not own")]
    let event = unsafe { AsyncFd::register_with_interest(reads.event(), Interest::READABLE) };
    let Ok(event) = event else { return };
    while let Ok(mut ready) = event.readable().await {
        // reads that complete from here on make another edge
        ready.clear_ready();
        reads.reap();
    }
}
