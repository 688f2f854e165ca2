//! The operating system's files.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arbor_base::{aside, work};
use rustix::fs::{Advice, AtFlags, FallocateFlags, FlockOperation, OFlags, Statx, StatxFlags, statx};
use rustix::io::{Errno, ReadWriteFlags};

use crate::appended::AppendedFile;
use crate::ring::{self, ReadLater};
use crate::{Buffer, DIRECT_UNIT, Disk, Error, File, Lock, OpenMode, Result};

/// Files of the operating system. Stateless: any number of them may be used side by side.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        Ok(Box::new(RealFile::open(path, mode)?))
    }

    fn open_appended(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        Ok(Box::new(AppendedFile::new(RealFile::open(path, mode)?)?))
    }

    fn open_direct(&self, path: &Path, mode: OpenMode) -> Result<Option<Box<dyn File>>> {
        let mut options = options(mode);
        options.custom_flags(OFlags::DIRECT.bits() as i32);
        match options.open(path) {
            Ok(file) if !takes_units(&file) => Ok(None),
            Ok(file) => Ok(Some(Box::new(RealFile { file: Arc::new(file), path: path.to_owned(), is_direct: true }))),
            Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(None),
            Err(e) => Err(Error::from_io("open", path, e)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| Error::from_io("rename", from, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| Error::from_io("remove", path, e))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let failed = |e| Error::from_io("list", dir, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.file_type().map_err(failed)?.is_dir() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        fs::exists(path).map_err(|e| Error::from_io("stat", path, e))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let failed = |e| Error::from_io("sync directory", dir, e);
        fs::File::open(dir).map_err(failed)?.sync_all().map_err(failed)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        create_durably(dir, &|parent| self.sync_dir(parent))
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        let stats = rustix::fs::statvfs(dir).map_err(|e| Error::from_io("statvfs", dir, e.into()))?;
        Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        Ok(Box::new(RealLock::take(path)?))
    }
}

/// Creates the directory and its missing parents, and has each name synced in its parent. `sync`: makes the names in a
/// directory durable.
fn create_durably(dir: &Path, sync: &dyn Fn(&Path) -> Result<()>) -> Result<()> {
    if dir.as_os_str().is_empty() || dir.parent().is_none() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if dir.is_dir() {
        // A process that died may have created it and not synced its name. Above what is ours that may not be allowed.
        return match sync(parent) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        };
    }
    create_durably(parent, sync)?;
    match fs::create_dir(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        Err(e) => return Err(Error::from_io("create directory", dir, e)),
    }
    sync(parent)
}

/// Returns true if direct I/O of the file can be in multiples of [`DIRECT_UNIT`], or it is not known in which it has to be.
fn takes_units(file: &fs::File) -> bool {
    match statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(Statx { stx_mask, stx_dio_mem_align, stx_dio_offset_align, .. })
            if stx_mask & StatxFlags::DIOALIGN.bits() != 0 =>
        {
            are_units(stx_dio_mem_align, stx_dio_offset_align)
        }
        // Linux before 6.1, or a file system that does not say
        _ => true,
    }
}

/// Returns true if direct I/O that has to be aligned like this, in memory and in the file, can be in multiples of [`DIRECT_UNIT`].
/// Zeros: the file has no direct I/O.
fn are_units(memory: u32, offset: u32) -> bool {
    [memory, offset].into_iter().all(|align| align > 0 && (DIRECT_UNIT as u32).is_multiple_of(align))
}

fn options(mode: OpenMode) -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    match mode {
        OpenMode::Read => options.read(true),
        OpenMode::ReadWrite => options.read(true).write(true),
        OpenMode::Create => options.read(true).write(true).create(true),
        OpenMode::CreateNew => options.read(true).write(true).create_new(true),
    };
    options
}

#[derive(Debug)]
pub(crate) struct RealFile {
    file: Arc<fs::File>,
    path: PathBuf,
    /// Reads pass the page cache by.
    is_direct: bool,
}

impl RealFile {
    fn open(path: &Path, mode: OpenMode) -> Result<RealFile> {
        let file = options(mode).open(path).map_err(|e| Error::from_io("open", path, e))?;
        Ok(RealFile { file: Arc::new(file), path: path.to_owned(), is_direct: false })
    }

    pub(crate) fn inner(&self) -> &fs::File {
        &self.file
    }

    pub(crate) fn failed(&self, operation: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |e| Error::from_io(operation, &self.path, e)
    }
}

/// The lock belongs to the open file description: it goes when the file is closed, even by `kill -9`.
#[derive(Debug)]
struct RealLock(RealFile);

impl RealLock {
    fn take(path: &Path) -> Result<Self> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(|e| Error::from_io("open", path, e))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(RealLock(RealFile { file: Arc::new(file), path: path.to_owned(), is_direct: false })),
            Err(Errno::WOULDBLOCK) => Err(Error::Locked { path: path.to_owned() }),
            Err(e) => Err(Error::from_io("lock", path, e.into())),
        }
    }
}

impl Lock for RealLock {
    fn write(&self, text: &str) -> Result<()> {
        self.0.set_len(0)?;
        self.0.write_at(text.as_bytes(), 0)
    }
}

/// Releases the lock itself. Closing the file does not suffice: a child process between fork and exec has it open too.
impl Drop for RealLock {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0.file, FlockOperation::Unlock);
    }
}

impl File for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let begun = Instant::now();
        let mut done = if aside::has_other_work() { self.read_at_once(buffer, offset) } else { 0 };
        if done < buffer.len() {
            done = aside::wait(|| self.read_waiting(buffer, offset, done)).map_err(self.failed("read"))?;
        }
        work::note(|work| {
            work.reads += 1;
            work.read_bytes += done as u64;
            work.read_micros += begun.elapsed().as_micros() as u64;
        });
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(self.failed("write"))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(self.failed("stat"))?.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(self.failed("truncate"))
    }

    /// fdatasync: also writes the metadata that is needed to read the data back, such as the length.
    fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(self.failed("sync"))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, len) {
            Ok(()) => Ok(()),
            // The file system cannot reserve: only the length is arranged.
            Err(Errno::OPNOTSUPP) => self.set_len(self.len()?.max(offset + len)),
            Err(e) => Err(self.failed("allocate")(e.into())),
        }
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => self.write_zeros(offset, len),
            Err(e) => Err(self.failed("punch hole")(e.into())),
        }
    }

    fn advise_random(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
    }

    fn advise_soon(&self, offset: u64, len: u64) {
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn read_later(&self, offset: u64, len: usize) -> Option<ReadLater> {
        let ring = ring::of_processor()?;
        if !self.is_direct {
            return ring.read(&self.file, offset, vec![0; len].into(), 0..len);
        }
        let (begin, whole, requested) = Buffer::around(offset, len);
        ring.read(&self.file, begin, whole, requested)
    }

    #[allow(unsafe_code, reason = "neither std, rustix nor nix have this call")]
    fn write_behind(&self, offset: u64, len: u64) -> Result<()> {
        let (fd, from, count) = (self.file.as_raw_fd(), offset as i64, len as i64);
        // SAFETY: the descriptor is open as long as `self` is, and the call touches no memory of this process.
        let answer = unsafe { libc::sync_file_range(fd, from, count, libc::SYNC_FILE_RANGE_WRITE) };
        match answer {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                // A file system that cannot: the sync will do it all.
                e if e.raw_os_error() == Some(libc::ENOSYS) || e.raw_os_error() == Some(libc::ESPIPE) => Ok(()),
                e => Err(self.failed("write behind")(e)),
            },
        }
    }
}

impl RealFile {
    /// Reads what is in the page cache, without waiting. Returns how much; what is missing is read later, and errors show then.
    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> usize {
        match self.is_direct {
            true => 0,
            false => {
                let mut buffers = [io::IoSliceMut::new(buffer)];
                rustix::io::preadv2(&self.file, &mut buffers, offset, ReadWriteFlags::NOWAIT).unwrap_or(0)
            }
        }
    }

    /// Fills the buffer from `done` bytes on. Returns how much of it is filled.
    fn read_waiting(&self, buffer: &mut [u8], offset: u64, mut done: usize) -> io::Result<usize> {
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Emulates a hole on a file system without holes: writes zeros within the file's length.
    fn write_zeros(&self, offset: u64, len: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let end = (offset + len).min(self.len()?);
        let mut at = offset;
        while at < end {
            let count = (end - at).min(ZEROS.len() as u64);
            self.write_at(ZEROS.get(..count as usize).unwrap_or(&ZEROS), at)?;
            at += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn files_are_written_cut_renamed_and_listed() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        RealDisk.create_dir_all(&deep).unwrap();
        let path = deep.join("one");
        assert!(RealDisk.open(&path, OpenMode::Read).unwrap_err().is_not_found());
        let file = RealDisk.open(&path, OpenMode::CreateNew).unwrap();
        assert!(matches!(RealDisk.open(&path, OpenMode::CreateNew), Err(Error::AlreadyExists { .. })));
        file.write_at(b"hello world", 3).unwrap();
        file.sync_data().unwrap();
        let mut buffer = [9; 20];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 14);
        assert_eq!(&buffer[..14], b"\0\0\0hello world");
        assert!(file.read_exact_at(&mut buffer, 0).is_err());
        file.set_len(5).unwrap();
        assert_eq!(file.len().unwrap(), 5);
        RealDisk.rename(&path, &deep.join("two")).unwrap();
        RealDisk.sync_dir(&deep).unwrap();
        assert_eq!(RealDisk.list(&deep).unwrap(), ["two"]);
        assert!(RealDisk.list(dir.path()).unwrap().is_empty(), "directories are not files");
        RealDisk.remove(&deep.join("two")).unwrap();
        assert!(!RealDisk.exists(&deep.join("two")).unwrap());
        assert!(RealDisk.free_bytes(dir.path()).unwrap() > 0);
    }

    #[test]
    fn a_file_with_larger_units_has_no_direct_io() {
        assert!(are_units(4, 512) && are_units(512, 4096));
        assert!(!are_units(0, 0) && !are_units(512, 16384) && !are_units(8192, 512));
    }

    #[test]
    fn a_dropped_lock_is_free_while_a_forked_process_has_its_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = RealLock::take(&path).unwrap();
        let inherited = lock.0.file.try_clone().unwrap();
        assert!(matches!(RealDisk.lock(&path), Err(Error::Locked { .. })));
        drop(lock);
        drop(RealDisk.lock(&path).unwrap());
        drop(inherited);
    }

    /// A file system that loses, when the power fails, every name that was not synced in its directory.
    #[test]
    fn created_directories_outlast_a_power_failure() {
        let dir = tempfile::tempdir().unwrap();
        let durable = RefCell::new(BTreeSet::from([dir.path().to_owned()]));
        let sync = |directory: &Path| {
            let inside = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
            durable.borrow_mut().extend(inside);
            Ok(())
        };
        let left =
            |path: &Path| path.ancestors().take_while(|at| *at != dir.path()).all(|at| durable.borrow().contains(at));
        let engine = dir.path().join("data/engines/ftree");
        create_durably(&engine, &sync).unwrap();
        assert!(engine.is_dir() && left(&engine));
        // A process that died behind the making, before the sync: the next one syncs what it finds.
        let found = dir.path().join("data/engines/lmdb");
        fs::create_dir(&found).unwrap();
        assert!(!left(&found));
        create_durably(&found, &sync).unwrap();
        assert!(left(&found));
        // Nothing above is ours: it may not be synced, and everything else is an error.
        let denied =
            |kind: io::ErrorKind| move |directory: &Path| Err(Error::from_io("sync directory", directory, kind.into()));
        assert!(create_durably(&found, &denied(io::ErrorKind::PermissionDenied)).is_ok());
        assert!(create_durably(&found, &denied(io::ErrorKind::InvalidInput)).is_err());
        assert!(create_durably(&found.join("new"), &denied(io::ErrorKind::PermissionDenied)).is_err());
    }

    #[test]
    fn holes_and_reserved_space_read_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk.open(&dir.path().join("f"), OpenMode::Create).unwrap();
        file.write_at(&[7; 20_000], 0).unwrap();
        file.punch_hole(4096, 8192).unwrap();
        file.allocate(0, 30_000).unwrap();
        let mut buffer = vec![1; 30_000];
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert!(buffer[..4096].iter().chain(&buffer[12_288..20_000]).all(|b| *b == 7));
        assert!(buffer[4096..12_288].iter().chain(&buffer[20_000..]).all(|b| *b == 0));
    }

    #[test]
    fn a_read_where_others_wait_gives_what_any_read_gives() {
        let dir = tempfile::tempdir().unwrap();
        let (path, bytes) = (dir.path().join("f"), vec![7u8; 3 * 4096]);
        RealDisk.open(&path, OpenMode::Create).unwrap().write_at(&bytes, 0).unwrap();
        let direct = RealDisk.open_direct(&path, OpenMode::Read).unwrap();
        for file in [Some(RealDisk.open(&path, OpenMode::Read).unwrap()), direct].into_iter().flatten() {
            let read = |len: usize, offset| {
                let mut room = vec![0u8; len + 4096];
                let skip = room.as_ptr().align_offset(4096);
                let buffer = &mut room[skip..skip + len];
                file.read_at(buffer, offset).map(|done| buffer[..done].to_vec()).unwrap()
            };
            let hand_over: aside::HandOver = |wait| wait();
            for (len, offset, expect) in [(8192, 0, 8192), (8192, 8192, 4096), (4096, 3 * 4096, 0)] {
                let (plain, aside) = (read(len, offset), aside::with_other_work(hand_over, || read(len, offset)));
                assert_eq!((plain.len(), &plain), (expect, &aside), "{len} bytes at {offset}");
            }
        }
    }

    #[test]
    fn direct_files_take_whole_pages_and_hints_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = RealDisk.open(&path, OpenMode::Create).unwrap();
        file.write_at(&[7; 8192], 0).unwrap();
        file.advise_random();
        file.advise_soon(0, 8192);
        file.advise_soon(1 << 40, 0);
        file.write_behind(0, 8192).unwrap();
        file.write_behind(1 << 40, 4096).unwrap();
        file.sync_data().unwrap();
        let missing = RealDisk.open_direct(&dir.path().join("g"), OpenMode::Read);
        assert!(missing.unwrap_err().is_not_found());
        let Some(direct) = RealDisk.open_direct(&path, OpenMode::ReadWrite).unwrap() else { return };
        let mut memory = vec![0; 3 * 4096];
        let begin = memory.as_ptr().align_offset(4096);
        let page = &mut memory[begin..begin + 4096];
        assert_eq!(direct.read_at(page, 4096).unwrap(), 4096);
        assert!(page.iter().all(|byte| *byte == 7));
        page.fill(8);
        direct.write_at(page, 8192).unwrap();
        let mut seen = [0; 4096];
        file.read_exact_at(&mut seen, 8192).unwrap();
        assert_eq!(seen, [8; 4096]);
    }

    #[test]
    fn a_lock_excludes_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = RealDisk.lock(&path).unwrap();
        lock.write("4711").unwrap();
        assert!(matches!(RealDisk.lock(&path), Err(Error::Locked { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"4711");
        drop(lock);
        RealDisk.lock(&path).unwrap();
    }

    #[test]
    fn a_full_device_has_its_own_error() {
        let file = RealDisk.open(Path::new("/dev/full"), OpenMode::ReadWrite).unwrap();
        assert!(file.write_at(b"x", 0).unwrap_err().is_out_of_space());
    }
}
