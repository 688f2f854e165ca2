//! The two traits every byte on its way to or from a file passes through.

use std::fmt::Debug;
use std::path::Path;

use crate::ring::ReadLater;
use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; writing is an error.
    Read,
    /// The file must exist.
    ReadWrite,
    /// Opened when it exists, created empty when not.
    Create,
    /// Created empty; an existing file is [`Error::AlreadyExists`].
    CreateNew,
}

/// A file system. Names become durable with [`Disk::sync_dir`], never earlier (D1).
pub trait Disk: Send + Sync + Debug + 'static {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>>;

    /// Like `open`, for reads and writes that pass the page cache by. Offsets, lengths and the addresses of buffers are
    /// then multiples of [`DIRECT_UNIT`](crate::DIRECT_UNIT). `None`: this file system does not do that.
    fn open_direct(&self, path: &Path, mode: OpenMode) -> Result<Option<Box<dyn File>>> {
        self.open(path, mode).map(Some)
    }

    /// Like `open`, for a file to whose end one thread at a time writes. After a crash zeros may follow what was written, up to
    /// an end that was reserved for more.
    fn open_appended(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        self.open(path, mode)
    }

    /// Replaces `to` when it exists, atomically.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file. Open handles of it stay valid.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Names of the files in a directory, sorted, without sub-directories.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    fn exists(&self, path: &Path) -> Result<bool>;

    /// Makes creates, renames and removes in this directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Creates the directory and its missing parents. Unlike files, created directories are durable when this returns.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Bytes that an unprivileged process may still write on the file system of `dir`.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;

    /// Takes an exclusive lock on the file `path` (created when missing) until the returned value is dropped or the
    /// process ends. Held elsewhere: [`Error::Locked`].
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>>;
}

/// An exclusive lock file. Its text names the owner for people who read it.
pub trait Lock: Send + Sync + Debug {
    /// Replaces the text of the lock file (a process id, say).
    fn write(&self, text: &str) -> Result<()>;
}

/// An open file. All methods may be called from many threads; each call is at an explicit offset.
pub trait File: Send + Sync + Debug {
    fn path(&self) -> &Path;

    /// Fills `buffer` from `offset`. Fewer bytes than asked for come back only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all bytes, growing the file as needed. After an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    fn len(&self) -> Result<u64>;

    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or grows it with zeros.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Makes content and length durable. An error is final (D2).
    fn sync_data(&self) -> Result<()>;

    /// Reserves space for `offset .. offset + len`, growing the file with zeros when it is shorter.
    fn allocate(&self, offset: u64, len: u64) -> Result<()>;

    /// Gives the blocks of a range back to the file system; the range reads as zeros, the length stays.
    fn punch_hole(&self, offset: u64, len: u64) -> Result<()>;

    /// Releases what [`Disk::open_appended`] has reserved behind the end of the file.
    fn release_reserved(&self) -> Result<()> {
        Ok(())
    }

    /// Advises the operating system that reads will be scattered, so that it reads nothing ahead. A hint.
    fn advise_random(&self) {}

    /// Advises the operating system that this range is read soon. A hint.
    fn advise_soon(&self, _offset: u64, _len: u64) {}

    /// Starts to read exactly this range, also of a direct file, for a task that awaits it. None: this has to be read by a thread.
    fn read_later(&self, _offset: u64, _len: usize) -> Option<ReadLater> {
        None
    }

    /// Starts writing what was written to this range, without waiting for it. Says nothing about durability (D1).
    fn write_behind(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    /// Like `read_at`; too few bytes are an error.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        if self.read_at(buffer, offset)? == buffer.len() {
            return Ok(());
        }
        let source = std::io::ErrorKind::UnexpectedEof.into();
        Err(Error::Io { operation: "read", path: self.path().to_owned(), source })
    }
}
