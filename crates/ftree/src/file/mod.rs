//! The data file: reads and writes at offsets, with or without the page cache.
//!
//! Nothing is verified here; blocks have checksums. Reads and writes go straight through from any thread.
//!
//! - Buffered: the operating system reads nothing ahead, and is asked to start writing after each 256 KiB, so that little
//!   is left to the sync.
//! - Direct: both ends are widened to whole units in a buffer of our own. See [`DataFile::write`] for what that asks of
//!   callers.
//!
//! After a failed sync the file is poisoned: all further writes and syncs are refused (D2 of crate `disk`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arbor_disk::ring::ReadLater;
use arbor_disk::{Buffer, DIRECT_UNIT, Disk, File, OpenMode};
use parking_lot::Mutex;

use crate::space::UNIT;
use crate::{Error, Result};

/// Written bytes after which writing behind starts.
const WRITE_BEHIND: u64 = 256 << 10;
/// Direct writes go out in pieces of at most this much.
const PIECE: usize = 1 << 20;
const _: () = assert!((PIECE as u64).is_multiple_of(UNIT), "each direct write but the first begins at a unit");
const _: () = assert!(UNIT == DIRECT_UNIT as u64, "whole units are what direct I/O takes");

pub struct DataFile {
    file: Box<dyn File>,
    direct: bool,
    poisoned: AtomicBool,
    /// Written and not handed to the device yet.
    behind: Mutex<Behind>,
    statistics: FileStatistics,
}

#[derive(Default)]
struct Behind {
    begin: u64,
    end: u64,
    bytes: u64,
}

/// I/O counters since the file was opened.
#[derive(Default)]
pub struct FileStatistics {
    pub reads: AtomicU64,
    pub bytes_read: AtomicU64,
    pub writes: AtomicU64,
    pub bytes_written: AtomicU64,
    pub syncs: AtomicU64,
    /// 1 when direct I/O was asked for and the file system refused.
    pub direct_refused: AtomicU64,
}

impl FileStatistics {
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("file reads", get(&self.reads)),
            ("file bytes read", get(&self.bytes_read)),
            ("file writes", get(&self.writes)),
            ("file bytes written", get(&self.bytes_written)),
            ("file syncs", get(&self.syncs)),
            ("direct I/O refused", get(&self.direct_refused)),
        ]
    }
}

impl DataFile {
    /// Opens a file; where the file system refuses direct I/O, through the page cache.
    pub fn open(disk: &dyn Disk, path: &Path, mode: OpenMode, direct: bool) -> Result<DataFile> {
        let failed = |error| map_error("opening", 0, error);
        let direct_file = if direct { disk.open_direct(path, mode).map_err(failed)? } else { None };
        let statistics = FileStatistics::default();
        statistics.direct_refused.store(u64::from(direct && direct_file.is_none()), Ordering::Relaxed);
        let (file, direct) = match direct_file {
            Some(file) => (file, true),
            None => (disk.open(path, mode).map_err(failed)?, false),
        };
        if !direct {
            file.advise_random();
        }
        let (poisoned, behind) = (AtomicBool::new(false), Mutex::default());
        Ok(DataFile { file, direct, poisoned, behind, statistics })
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn is_direct(&self) -> bool {
        self.direct
    }

    pub fn statistics(&self) -> &FileStatistics {
        &self.statistics
    }

    pub fn len(&self) -> Result<u64> {
        self.file.len().map_err(|error| map_error("measuring", 0, error))
    }

    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads exactly this range. Beyond the end of the file: `Corrupt`.
    pub fn read(&self, offset: u64, bytes: u64) -> Result<Buffer> {
        let len = self.checked_len(offset, bytes)?;
        self.statistics.reads.fetch_add(1, Ordering::Relaxed);
        self.statistics.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        if self.direct {
            return self.read_direct(offset, len);
        }
        let mut buffer = vec![0; len];
        let done = self.file.read_at(&mut buffer, offset).map_err(|error| map_error("reading", offset, error))?;
        if done == len { Ok(buffer.into()) } else { Err(self.too_short(offset, bytes)) }
    }

    /// A hint that this range is read soon.
    ///
    /// Requires: no direct I/O, which reads past the page cache.
    pub fn read_ahead(&self, offset: u64, bytes: u64) {
        debug_assert!(!self.direct, "a hint to read at {offset} into the page cache");
        self.file.advise_soon(offset, bytes);
    }

    /// Starts to read exactly this range, for a task that awaits it. None: this has to be read by a thread.
    pub fn read_later(&self, offset: u64, bytes: usize) -> Option<ReadLater> {
        let later = self.file.read_later(offset, bytes)?;
        self.statistics.reads.fetch_add(1, Ordering::Relaxed);
        self.statistics.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        Some(later)
    }

    /// Writes a range.
    ///
    /// Requires: the caller owns the whole units from `offset` to the end. With direct I/O the bytes after the end in
    /// its unit become zeros, so an extent that is written in several pieces is written from front to back.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.refuse_when_poisoned()?;
        self.statistics.writes.fetch_add(1, Ordering::Relaxed);
        self.statistics.bytes_written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if self.direct {
            return self.write_direct(offset, bytes);
        }
        self.file.write_at(bytes, offset).map_err(|error| map_error("writing", offset, error))?;
        self.write_behind(offset, bytes.len() as u64)
    }

    /// Makes everything durable that was written before. An error is final.
    pub fn sync(&self) -> Result<()> {
        self.refuse_when_poisoned()?;
        self.statistics.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data().map_err(|error| {
            self.poisoned.store(true, Ordering::SeqCst);
            map_error("syncing", 0, error)
        })
    }

    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::SeqCst)
    }

    /// Gives the blocks of a range back to the file system.
    pub fn punch(&self, offset: u64, bytes: u64) -> Result<()> {
        self.refuse_when_poisoned()?;
        self.file.punch_hole(offset, bytes).map_err(|error| map_error("punching", offset, error))
    }

    /// Cuts the file or grows it.
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        self.refuse_when_poisoned()?;
        self.file.set_len(bytes).map_err(|error| map_error("cutting", bytes, error))
    }

    fn read_direct(&self, offset: u64, len: usize) -> Result<Buffer> {
        let (begin, mut buffer, range) = Buffer::around(offset, len);
        let done = self.file.read_at(&mut buffer, begin).map_err(|error| map_error("reading", offset, error))?;
        if done < range.end { Err(self.too_short(offset, len as u64)) } else { Ok(buffer.narrowed(range)) }
    }

    fn write_direct(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let begin = offset / UNIT * UNIT;
        let skip = (offset - begin) as usize;
        let first = bytes.len().min(PIECE - skip);
        let (first, rest) = bytes.split_at(first);
        let mut buffer = Buffer::aligned((skip + bytes.len()).min(PIECE).next_multiple_of(UNIT as usize));
        if skip > 0 {
            let unit = buffer.get_mut(..UNIT as usize).unwrap_or_default();
            self.file.read_at(unit, begin).map_err(|error| map_error("reading", begin, error))?;
        }
        self.write_piece(&mut buffer, begin, skip, first)?;
        for (at, piece) in rest.chunks(PIECE).enumerate() {
            self.write_piece(&mut buffer, begin + (PIECE * (at + 1)) as u64, 0, piece)?;
        }
        Ok(())
    }

    fn write_piece(&self, buffer: &mut Buffer, begin: u64, skip: usize, piece: &[u8]) -> Result<()> {
        let end = skip + piece.len();
        debug_assert!(begin.is_multiple_of(UNIT) && end <= PIECE, "a piece of {end} bytes at {begin}");
        let whole = end.next_multiple_of(UNIT as usize);
        let bytes = buffer.get_mut(..whole).expect("the buffer holds a piece");
        let (written, zeros) = bytes.split_at_mut(end);
        written.get_mut(skip..).unwrap_or_default().copy_from_slice(piece);
        zeros.fill(0);
        self.file.write_at(bytes, begin).map_err(|error| map_error("writing", begin, error))
    }

    fn write_behind(&self, offset: u64, bytes: u64) -> Result<()> {
        let due = {
            let mut behind = self.behind.lock();
            let fresh = behind.bytes == 0;
            behind.begin = if fresh { offset } else { behind.begin.min(offset) };
            behind.end = behind.end.max(offset + bytes);
            behind.bytes += bytes;
            (behind.bytes >= WRITE_BEHIND).then(|| std::mem::take(&mut *behind))
        };
        let Some(due) = due else { return Ok(()) };
        let started = self.file.write_behind(due.begin, due.end - due.begin);
        started.map_err(|error| map_error("writing behind", due.begin, error))
    }

    fn checked_len(&self, offset: u64, bytes: u64) -> Result<usize> {
        // Lengths come from blocks on disk: a wrong one must not take the memory of the machine.
        const PLAUSIBLE: u64 = 64 << 20;
        let end = offset.checked_add(bytes).ok_or_else(|| self.too_short(offset, bytes))?;
        if bytes > PLAUSIBLE && end > self.len()?.next_multiple_of(UNIT) {
            return Err(self.too_short(offset, bytes));
        }
        usize::try_from(bytes).map_err(|_| self.too_short(offset, bytes))
    }

    fn too_short(&self, offset: u64, bytes: u64) -> Error {
        let place = format!("{} at {offset}", self.path().display());
        Error::Corrupt { place, context: format!("the file ends before {bytes} bytes") }
    }

    fn refuse_when_poisoned(&self) -> Result<()> {
        if self.is_poisoned() {
            let context = format!("a sync of {} failed", self.path().display());
            return Err(Error::Poisoned { context });
        }
        Ok(())
    }
}

/// Keeps `OutOfSpace` apart (D3 of crate `disk`).
pub fn map_error(doing: &str, offset: u64, error: arbor_disk::Error) -> Error {
    let context = format!("{doing} at {offset}: {error}");
    match error {
        arbor_disk::Error::OutOfSpace { .. } => Error::OutOfSpace { context },
        arbor_disk::Error::Io { source, .. } => Error::Io { context, source },
        arbor_disk::Error::NotFound { path } | arbor_disk::Error::AlreadyExists { path } => {
            Error::CannotOpen { path: path.display().to_string(), reason: context }
        }
        arbor_disk::Error::Locked { path } => {
            Error::CannotOpen { path: path.display().to_string(), reason: "in use by another process".to_owned() }
        }
    }
}

#[cfg(test)]
mod tests;
