//! Free space on the device of log and trees, and a reserve for the time when there is none.
//!
//! The reserve is an allocated file that is never read. While it is there, even a writer that takes the last byte leaves
//! some space: the file is emptied, writes that need space are refused, and what makes space works: deletions, checkpoints, trimming of
//! the log. The reserve is taken again when there is room for it.
//!
//! With `R` for the bytes of the reserve:
//!
//! | free bytes | what happens |
//! |---|---|
//! | below R/4, or a write that finds no space | space is *low*: the reserve is given up, writes are refused |
//! | low, a checkpoint later, 3/4 R or more | the reserve is allocated again except for R/2 that stay free, and writes continue, if a whole reserve was freed: on the device, or in the engines' files, which need not grow then |
//! | not low, and the reserve is not whole | it grows as far as R/2 stay free |
//!
//! The free bytes are checked about every second and whenever enough was logged to change them by R/8 (an engine may take as
//! much again as the log).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arbor_disk::{Disk, File, OpenMode};
use parking_lot::Mutex;

/// Name of the file in the data directory.
pub const RESERVE_FILE: &str = "reserve";

pub struct Space {
    disk: Arc<dyn Disk>,
    dir: std::path::PathBuf,
    /// Bytes of a whole reserve.
    reserve_bytes: u64,
    /// `None`: the file could not be made. Space is watched all the same.
    file: Option<Box<dyn File>>,
    /// Bytes of the reserve that are allocated.
    held: Mutex<u64>,
    low: AtomicBool,
    /// A checkpoint was made since space is low.
    checkpointed: AtomicBool,
    /// Bytes logged at the last check.
    checked_at: AtomicU64,
    /// Free bytes at the last check.
    seen: AtomicU64,
}

impl Space {
    /// Opens the reserve in the data directory before log and engines are opened. Where there is little space it is given up
    /// for the recovery, and taken again by the first watch.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, reserve_bytes: u64) -> Space {
        let file = disk.open(&dir.join(RESERVE_FILE), OpenMode::Create).ok();
        let held = file.as_ref().and_then(|file| file.len().ok()).unwrap_or(0).min(reserve_bytes);
        let space = Space {
            disk,
            dir: dir.to_owned(),
            reserve_bytes,
            file,
            held: Mutex::new(held),
            low: AtomicBool::new(false),
            checkpointed: AtomicBool::new(false),
            checked_at: AtomicU64::new(0),
            seen: AtomicU64::new(u64::MAX),
        };
        space.check();
        if space.seen.load(Ordering::Relaxed) < 2 * reserve_bytes {
            space.give_up();
        }
        space
    }

    /// Returns true if writes that need space are refused.
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Returns true if space is low and a checkpoint may free some.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.is_low() && !self.checkpointed.load(Ordering::Relaxed)
    }

    /// A checkpoint was made, and the log was trimmed up to it.
    pub(crate) fn checkpointed(&self) {
        self.checkpointed.store(true, Ordering::Relaxed);
    }

    /// A deletion was made: what it freed shows after a checkpoint.
    pub(crate) fn changed(&self) {
        self.checkpointed.store(false, Ordering::Relaxed);
    }

    /// A write found no space. Returns true if the reserve gave some, so that it may be tried again.
    pub(crate) fn exhausted(&self) -> bool {
        self.become_low()
    }

    /// Called with the bytes that were logged since the start.
    pub(crate) fn logged(&self, bytes: u64) {
        if bytes.saturating_sub(self.checked_at.load(Ordering::Relaxed)) >= self.reserve_bytes / 16 {
            self.checked_at.store(bytes, Ordering::Relaxed);
            self.check();
        }
    }

    /// Called about every second. `inside` returns the number of free bytes inside the engines' files.
    pub(crate) fn watch(&self, inside: impl FnOnce() -> u64) {
        self.check();
        if !self.is_low() {
            self.take(self.reserve_bytes);
        } else if self.checkpointed.load(Ordering::Relaxed) {
            self.recover(inside);
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes(&self.dir).ok()
    }

    fn check(&self) {
        let free = self.free_bytes().unwrap_or(u64::MAX);
        self.seen.store(free, Ordering::Relaxed);
        if free < self.reserve_bytes / 4 {
            self.become_low();
        }
    }

    /// Bytes of log after which a checkpoint should follow: it writes about as much again, and there has to be room for it.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.seen.load(Ordering::Relaxed) / 4
    }

    /// Returns true if there was a reserve to give up.
    fn become_low(&self) -> bool {
        if !self.low.swap(true, Ordering::Relaxed) {
            self.changed();
        }
        self.give_up()
    }

    /// Returns true if anything was held.
    fn give_up(&self) -> bool {
        let mut held = self.held.lock();
        let emptied = self.file.as_ref().is_some_and(|file| file.set_len(0).is_ok());
        emptied && std::mem::take(&mut *held) > 0
    }

    fn recover(&self, inside: impl FnOnce() -> u64) {
        let whole = self.reserve_bytes;
        let Some(free) = self.free_bytes().filter(|free| *free >= whole / 4 * 3) else { return };
        let enough = free >= whole + whole / 2 || free.saturating_add(inside()) >= 2 * whole;
        if enough && (self.take(whole) || self.file.is_none()) {
            self.low.store(false, Ordering::Relaxed);
        }
    }

    /// Grows the reserve to `bytes`, as far as there is room. Returns true if it has any bytes.
    fn take(&self, bytes: u64) -> bool {
        let Some(file) = &self.file else { return false };
        let mut held = self.held.lock();
        let spare = self.free_bytes().unwrap_or(0).saturating_sub(self.reserve_bytes / 2);
        let requested = bytes.min(*held + spare);
        if requested > *held {
            match file.allocate(0, requested) {
                Ok(()) => *held = requested,
                // What was allocated of it is not counted, and goes when space is low.
                Err(_) => return *held > 0,
            }
        }
        debug_assert!(*held <= self.reserve_bytes, "the reserve holds {held} of {} bytes", self.reserve_bytes);
        *held > 0
    }
}

#[cfg(test)]
mod tests {
    use arbor_disk::FaultyDisk;

    use super::*;

    const DIR: &str = "data";
    const R: u64 = 64 << 10;

    fn rig() -> (FaultyDisk, Space) {
        let disk = FaultyDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk.set_capacity(Some(10 * R));
        let space = Space::open(Arc::new(disk.clone()), Path::new(DIR), R);
        space.watch(|| 0);
        (disk, space)
    }

    fn fill(disk: &FaultyDisk, leave: u64) -> Box<dyn File> {
        let file = disk.open(&Path::new(DIR).join("filler"), OpenMode::Create).unwrap();
        let free = disk.free_bytes(Path::new(DIR)).unwrap();
        file.allocate(0, file.len().unwrap() + free - leave).unwrap();
        file
    }

    #[test]
    fn the_last_byte_is_followed_by_the_reserve() {
        let (disk, space) = rig();
        assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), 9 * R);
        let filler = fill(&disk, 0);
        assert!(space.exhausted() && space.is_low());
        assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), R);
        assert!(!space.exhausted(), "there is nothing left to give up");
        // Only a checkpoint shows what was freed.
        filler.set_len(0).unwrap();
        space.watch(|| 0);
        assert!(space.is_low() && space.wants_checkpoint());
        space.checkpointed();
        space.watch(|| 0);
        assert!(!space.is_low());
        assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), 9 * R);
    }

    #[test]
    fn a_check_finds_little_space_before_the_last_byte() {
        let (disk, space) = rig();
        let _filler = fill(&disk, R / 4);
        space.logged(R / 16);
        assert!(!space.is_low());
        let _filler = fill(&disk, R / 4 - 1);
        space.logged(R / 16 + 1);
        assert!(!space.is_low(), "too little was logged for a check");
        space.logged(2 * R / 16);
        assert!(space.is_low());
    }

    #[test]
    fn space_inside_of_the_engines_counts_when_the_log_has_some() {
        let (disk, space) = rig();
        let _filler = fill(&disk, 0);
        space.exhausted();
        space.checkpointed();
        space.watch(|| R / 2);
        assert!(space.is_low(), "no reserve was freed");
        space.watch(|| R);
        assert!(!space.is_low());
        assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), R / 2);
        assert!(space.exhausted(), "what was taken again is given up again");
    }

    #[test]
    fn a_start_on_a_full_disk_gives_the_reserve_up_first() {
        let (disk, space) = rig();
        drop(space);
        let _filler = fill(&disk, 0);
        let space = Space::open(Arc::new(disk.clone()), Path::new(DIR), R);
        assert!(space.is_low());
        assert_eq!(disk.free_bytes(Path::new(DIR)).unwrap(), R);
    }
}
