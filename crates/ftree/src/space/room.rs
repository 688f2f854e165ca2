//! Free space on the file system, and when growing stops.
//!
//! Below the red zone the data file does not grow, so that something is left for what frees space: checkpoints, deletes,
//! the log. The zone is 64 MiB or 2 % of the file, but at most an eighth of what file and free space are together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arbor_disk::Disk;
use parking_lot::Mutex;

const ZONE_MIN: u64 = 64 << 20;
const ZONE_MAX: u64 = 4 << 30;
/// Time for which a measurement is valid.
const FRESH: Duration = Duration::from_millis(100);

pub(super) struct Room {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    zone_min: AtomicU64,
    measured: Mutex<Measured>,
}

#[derive(Default)]
struct Measured {
    at: Option<Instant>,
    free_bytes: u64,
}

impl Room {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path) -> Room {
        let (zone_min, measured) = (AtomicU64::new(ZONE_MIN), Mutex::default());
        Room { disk, dir: dir.to_owned(), zone_min, measured }
    }

    pub(super) fn set_zone_min(&self, bytes: u64) {
        self.zone_min.store(bytes, Ordering::Relaxed);
    }

    /// Returns what is left on the file system, less what was handed out since it was measured. A file system that does not
    /// report it has room: its writes will fail.
    pub(super) fn free_bytes(&self) -> u64 {
        let mut measured = self.measured.lock();
        if measured.at.is_none_or(|at| at.elapsed() >= FRESH) {
            measured.free_bytes = self.disk.free_bytes(&self.dir).unwrap_or(u64::MAX);
            measured.at = Some(Instant::now());
        }
        measured.free_bytes
    }

    /// Bytes that only reserved growth may take.
    pub(super) fn zone(&self, file_bytes: u64, free_bytes: u64) -> u64 {
        let share = (file_bytes / 50).min(ZONE_MAX);
        let most = file_bytes.saturating_add(free_bytes) / 8;
        self.zone_min.load(Ordering::Relaxed).max(share).min(most)
    }

    /// So much was handed out that the file system did not hold for the file.
    pub(super) fn taken(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut measured = self.measured.lock();
        measured.free_bytes = measured.free_bytes.saturating_sub(bytes);
    }

    /// Space may have come back to the file system: the next check measures.
    pub(super) fn forget(&self) {
        self.measured.lock().at = None;
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}
