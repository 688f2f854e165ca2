//! A file that grows by small pieces at its end: they are copied into mapped memory, which costs a fourth of a system call.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::*};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::mapped::Window;
use crate::real::RealFile;
use crate::{Error, File, Result};

/// Longer pieces are written by a system call, which then costs less than the page faults.
const MAPPED_BYTES_MAX: usize = 16 << 10;

/// A window is as large as the file before it, within these bounds.
const WINDOW_BYTES_MIN: u64 = 64 << 10;
const WINDOW_BYTES_MAX: u64 = 1 << 20;

const PAGE_BYTES: u64 = 4096;

/// The file is reserved up to the end of its window, but has its length in the eyes of its users: `end`.
#[derive(Debug)]
pub(crate) struct AppendedFile {
    file: RealFile,
    /// End of what was written.
    end: AtomicU64,
    mapping: Mutex<Mapping>,
}

#[derive(Debug)]
enum Mapping {
    /// The file system is not known to do it well.
    Off,
    Not,
    On(Window),
}

impl AppendedFile {
    pub(crate) fn new(file: RealFile) -> Result<AppendedFile> {
        let end = file.len()?.into();
        let mapping = if file.is_mappable() { Mapping::Not } else { Mapping::Off };
        Ok(AppendedFile { file, end, mapping: Mutex::new(mapping) })
    }

    /// Reserves the part of the file from `offset` on and maps it. `None`: there is no space to reserve, or no memory.
    fn map(&self, offset: u64, len: usize) -> Result<Option<Window>> {
        let begin = offset - offset % PAGE_BYTES;
        let at_least = (offset - begin + len as u64).next_multiple_of(PAGE_BYTES);
        let window = offset.next_power_of_two().clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX).max(at_least);
        match self.file.allocate(begin, window) {
            Ok(()) => Ok(Window::map(self.file.inner(), begin, window as usize).ok()),
            Err(Error::OutOfSpace { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_mapped(&self, mapping: &mut Mapping, bytes: &[u8], offset: u64) -> Result<bool> {
        if matches!(mapping, Mapping::Off) || bytes.len() > MAPPED_BYTES_MAX {
            return Ok(false);
        }
        if !matches!(mapping, Mapping::On(window) if window.holds(offset, bytes.len())) {
            // Only what is appended moves the window.
            if offset != self.end.load(Acquire) {
                return Ok(false);
            }
            *mapping = Mapping::Not;
            match self.map(offset, bytes.len())? {
                Some(window) => *mapping = Mapping::On(window),
                None => return Ok(false),
            }
        }
        let Mapping::On(window) = mapping else { return Ok(false) };
        window.write(bytes, offset).map_err(|error| {
            *mapping = Mapping::Not;
            self.file.failed("write")(error)
        })?;
        Ok(true)
    }

    /// Cuts the file to what was written.
    fn cut(&self, mapping: &mut Mapping) -> Result<()> {
        if matches!(mapping, Mapping::On(_)) {
            *mapping = Mapping::Not;
        }
        let end = self.end.load(Acquire);
        if self.file.len()? == end { Ok(()) } else { self.file.set_len(end) }
    }
}

impl File for AppendedFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let there = self.end.load(Acquire).saturating_sub(offset).min(buffer.len() as u64);
        self.file.read_at(buffer.get_mut(..there as usize).unwrap_or_default(), offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut mapping = self.mapping.lock();
        let written = match self.write_mapped(&mut mapping, bytes, offset) {
            Ok(false) => self.file.write_at(bytes, offset),
            written => written.map(|_| ()),
        };
        // After an error as well: any part of the bytes may be there.
        self.end.fetch_max(offset + bytes.len() as u64, AcqRel);
        written
    }

    fn len(&self) -> Result<u64> {
        Ok(self.end.load(Acquire))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut mapping = self.mapping.lock();
        if matches!(*mapping, Mapping::On(_)) {
            *mapping = Mapping::Not;
        }
        self.file.set_len(len)?;
        self.end.store(len, Release);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.file.allocate(offset, len)?;
        self.end.fetch_max(offset + len, AcqRel);
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.file.punch_hole(offset, len)
    }

    fn release_reserved(&self) -> Result<()> {
        self.cut(&mut self.mapping.lock())
    }
}

/// A reserved part that stays because this fails, or because the process is killed, is cut by recovery.
impl Drop for AppendedFile {
    fn drop(&mut self) {
        if matches!(self.mapping.get_mut(), Mapping::On(_)) {
            let _ = self.release_reserved();
        }
    }
}

impl RealFile {
    /// Returns true on file systems of which it is known that what is reserved can be written through a mapping without new space.
    /// Those that copy on write need space for it.
    fn is_mappable(&self) -> bool {
        const EXT4: u64 = 0xEF53;
        const XFS: u64 = 0x5846_5342;
        let stats: std::result::Result<_, Errno> = rustix::fs::fstatfs(self.inner());
        stats.is_ok_and(|stats| matches!(stats.f_type as u64, EXT4 | XFS))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Disk, OpenMode, RealDisk};

    fn contents(path: &Path, end: u64) -> Vec<u8> {
        let mut bytes = fs::read(path).unwrap();
        let behind = bytes.split_off(end as usize);
        assert!(behind.iter().all(|byte| *byte == 0), "what is reserved is zeros");
        bytes
    }

    /// Pieces of all lengths, as a log writes them: each at the end, some of them replaced before the next one comes.
    #[test]
    fn appended_pieces_are_there_whatever_way_they_took() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut random = arbor_base::Random::new(7);
        let file = RealDisk.open_appended(&path, OpenMode::CreateNew).unwrap();
        let mut expected = Vec::new();
        for step in 0..3_000 {
            let len = match random.below(20) {
                0 => random.below(200_000),
                1..4 => random.below(40_000),
                _ => random.below(400),
            };
            let piece: Vec<u8> = (0..len).map(|at| (at + step) as u8 | 1).collect();
            match random.below(100) {
                0 => {
                    let cut = random.below(expected.len() as u64 + 1);
                    expected.truncate(cut as usize);
                    file.set_len(cut).unwrap();
                }
                1 => file.release_reserved().unwrap(),
                2 => file.sync_data().unwrap(),
                _ => {}
            }
            file.write_at(&piece, expected.len() as u64).unwrap();
            expected.extend_from_slice(&piece);
            assert_eq!(file.len().unwrap(), expected.len() as u64);
            let from = expected.len() - piece.len();
            let mut seen = vec![0; piece.len() + 1];
            assert_eq!(file.read_at(&mut seen, from as u64).unwrap(), piece.len());
            assert_eq!(&seen[..piece.len()], piece);
        }
        // First as a killed process leaves it, then as one that ends.
        assert_eq!(contents(&path, expected.len() as u64), expected);
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), expected);
    }

    #[test]
    fn a_failed_write_says_that_it_may_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = RealDisk.open_appended(&path, OpenMode::CreateNew).unwrap();
        file.write_at(&[1; 100], 0).unwrap();
        let mapped = fs::metadata(&path).unwrap().len() > 100;
        // Another hand cuts the file: its pages are gone, as those of a device that fails.
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        let failed = file.write_at(&[2; 100], 100);
        assert_eq!(failed.is_err(), mapped);
        assert_eq!(file.len().unwrap(), 200);
        file.set_len(0).unwrap();
        file.write_at(&[3; 50], 0).unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), [3; 50]);
    }
}
