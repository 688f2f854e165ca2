//! Files of a target. Their names are relative to it, with `/` between the parts.
//!
//! | target | files |
//! |---|---|
//! | `DIRECTORY` | [`Directory`] |
//! | `s3://BUCKET/PREFIX` | [`super::s3::Store`] |
//!
//! - F1: a file that is created has its name only when it is whole and durable.
//! - F2: a block of the log that was appended is durable. Where a file cannot grow, each block is a file.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cipher::Cipher;
use super::{Error, Result, io};

const BUFFER_BYTES: usize = 1 << 20;
/// Bytes of a new file after which it is synced: all of a large tree at once would hold up a server that syncs its log on the same disk.
const SYNC_BYTES: usize = 8 << 20;
/// Bytes of a file of the log beyond which the next begins.
const LOG_FILE_BYTES: u64 = 64 << 20;

/// A child of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: String,
    pub is_directory: bool,
    /// Size of a file.
    pub bytes: u64,
}

/// A file that is read from some place on.
pub(super) struct Opened {
    /// Size of the whole file.
    pub bytes: u64,
    pub reader: Box<dyn Read + Send>,
}

/// A file on its way (F1). It is none if it is dropped.
pub(super) trait NewFile: Send {
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A file of the log that grows.
pub(super) trait Growing: Send {
    /// Ensures on `Ok`: the bytes are durable (F2).
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
}

pub(super) trait Files: Send + Sync {
    /// The place of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// A directory of the target as a target of its own.
    fn child(&self, name: &str) -> Arc<dyn Files>;

    /// Makes the target, if its place is there.
    fn make(&self) -> Result<()>;

    /// The children of a directory. `None`: there is none of that name.
    fn list(&self, directory: &str) -> Result<Option<Vec<Entry>>>;

    /// Opens a file behind `at` bytes. `None`: there is none of that name.
    fn open(&self, name: &str, at: u64) -> Result<Option<Opened>>;

    fn create(&self, name: &str) -> Result<Box<dyn NewFile>>;

    /// Returns false if there is a directory of that name.
    fn create_directory(&self, name: &str) -> Result<bool>;

    fn remove(&self, name: &str) -> Result<()>;

    fn remove_directory(&self, name: &str) -> Result<()>;

    /// Begins a file of the log. `replaces`: there may be one of that name, without records.
    fn begin_log(&self, name: &str, replaces: bool) -> Result<Box<dyn Growing>>;

    /// Opens a file of the log behind `at` bytes, as they are in the target.
    fn open_log(&self, name: &str, at: u64) -> Result<Option<Opened>> {
        self.open(name, at)
    }

    /// The key with which everything is encrypted; blocks of the log are by those who write and read them.
    fn cipher(&self) -> Option<&Cipher> {
        None
    }

    /// Size from which on the next file of the log begins.
    fn log_file_bytes(&self) -> u64;

    /// Cuts a file of the log, whose last block was not written to its end.
    fn cut(&self, name: &str, bytes: u64) -> Result<()>;

    /// Keeps other processes from writing the log as long as the returned file is open. `None`: the target cannot.
    fn lock(&self, name: &str) -> Result<Option<File>>;

    /// All of a file.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(mut opened) = self.open(name, 0)? else { return Ok(None) };
        let mut bytes = Vec::new();
        opened.reader.read_to_end(&mut bytes).map_err(io("read", self.path(name)))?;
        Ok(Some(bytes))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.create(name)?;
        file.write(bytes)?;
        file.finish()
    }
}

/// A directory of a file system.
pub(super) struct Directory {
    root: PathBuf,
}

fn sync_directory(path: &Path) -> Result<()> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(io("sync", path))
}

/// The name of a file until it may be read.
fn new_name(path: &Path) -> PathBuf {
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    PathBuf::from(new)
}

/// Makes the name of a file durable.
fn sync_name(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}

impl Directory {
    pub(super) fn new(root: impl Into<PathBuf>) -> Directory {
        Directory { root: root.into() }
    }
}

/// Returns nothing for what is not there.
fn present<T>(found: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

impl Files for Directory {
    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    fn child(&self, name: &str) -> Arc<dyn Files> {
        Arc::new(Directory::new(self.root.join(name)))
    }

    fn make(&self) -> Result<()> {
        match std::fs::create_dir(&self.root) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made.map_err(io("create", &self.root)),
        }
    }

    fn list(&self, directory: &str) -> Result<Option<Vec<Entry>>> {
        let path = self.path(directory);
        let Some(entries) = present(std::fs::read_dir(&path)).map_err(io("read", &path))? else { return Ok(None) };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(io("read", &path))?;
            // A file that is removed meanwhile is none.
            if let Some(facts) = present(entry.metadata()).map_err(io("read", entry.path()))? {
                let name = entry.file_name().to_string_lossy().into_owned();
                found.push(Entry { name, is_directory: facts.is_dir(), bytes: facts.len() });
            }
        }
        Ok(Some(found))
    }

    fn open(&self, name: &str, at: u64) -> Result<Option<Opened>> {
        let path = self.path(name);
        let Some(mut file) = present(File::open(&path)).map_err(io("open", &path))? else { return Ok(None) };
        let bytes = file.metadata().map_err(io("open", &path))?.len();
        file.seek(SeekFrom::Start(at)).map_err(io("read", &path))?;
        Ok(Some(Opened { bytes, reader: Box::new(file) }))
    }

    fn create(&self, name: &str) -> Result<Box<dyn NewFile>> {
        let path = self.path(name);
        let new = new_name(&path);
        let file = File::create(&new).map_err(io("create", &path))?;
        Ok(Box::new(DirectoryFile { path, new, file: BufWriter::with_capacity(BUFFER_BYTES, file), unsynced: 0 }))
    }

    fn create_directory(&self, name: &str) -> Result<bool> {
        let path = self.path(name);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            made => made.map_err(io("create", &path)).and_then(|()| sync_name(&path)).map(|()| true),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        if present(std::fs::remove_file(&path)).map_err(io("remove", &path))?.is_some() {
            sync_name(&path)?;
        }
        Ok(())
    }

    fn remove_directory(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        present(std::fs::remove_dir_all(&path)).map_err(io("remove", path)).map(drop)
    }

    fn begin_log(&self, name: &str, _: bool) -> Result<Box<dyn Growing>> {
        let path = self.path(name);
        let new = new_name(&path);
        let file = File::create(&new).map_err(io("create", &path))?;
        Ok(Box::new(DirectoryLog { path, new: Some(new), file }))
    }

    fn log_file_bytes(&self) -> u64 {
        LOG_FILE_BYTES
    }

    fn cut(&self, name: &str, bytes: u64) -> Result<()> {
        let path = self.path(name);
        let file = File::options().write(true).open(&path).map_err(io("open", &path))?;
        file.set_len(bytes).and_then(|()| file.sync_all()).map_err(io("write", &path))
    }

    fn lock(&self, name: &str) -> Result<Option<File>> {
        let path = self.path(name);
        let lock = File::create(&path).map_err(io("create", &path))?;
        let directory = path.parent().unwrap_or(&self.root).display().to_string();
        lock.try_lock().map_err(|_| Error::Refused(format!("another process archives into {directory}")))?;
        Ok(Some(lock))
    }
}

struct DirectoryFile {
    path: PathBuf,
    new: PathBuf,
    file: BufWriter<File>,
    unsynced: usize,
}

impl NewFile for DirectoryFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes).and_then(|()| {
            self.unsynced += bytes.len();
            if self.unsynced < SYNC_BYTES {
                return Ok(());
            }
            self.unsynced = 0;
            self.file.flush().and_then(|()| self.file.get_ref().sync_data())
        });
        written.map_err(io("write", &self.path))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let written = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        written.and_then(|()| std::fs::rename(&self.new, &self.path)).map_err(io("write", &self.path))?;
        sync_name(&self.path)
    }
}

struct DirectoryLog {
    path: PathBuf,
    /// Its name until the first block is in it: who reads the archive meanwhile, or after a kill, finds no file without a head.
    new: Option<PathBuf>,
    file: File,
}

impl Growing for DirectoryLog {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).and_then(|()| self.file.sync_data()).map_err(io("write", &self.path))?;
        match self.new.take() {
            Some(new) => {
                std::fs::rename(&new, &self.path).map_err(io("write", &self.path))?;
                sync_name(&self.path)
            }
            None => self.check_place().map_err(io("write", &self.path)),
        }
    }
}

impl DirectoryLog {
    /// A file that was removed takes what is written, and so does one on a file system that was unmounted.
    fn check_place(&self) -> std::io::Result<()> {
        let (own, there) = (self.file.metadata()?, std::fs::metadata(&self.path)?);
        match (own.dev(), own.ino()) == (there.dev(), there.ino()) {
            true => Ok(()),
            false => Err(std::io::Error::other("another file has its name by now")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_has_all_that_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let files = Directory::new(dir.path());
        let mut file = files.create("large").unwrap();
        let pieces: Vec<Vec<u8>> = (0..9).map(|n| vec![n; SYNC_BYTES / 4 + usize::from(n)]).collect();
        pieces.iter().for_each(|piece| file.write(piece).unwrap());
        file.finish().unwrap();
        assert!(files.read("large").unwrap() == Some(pieces.concat()));
    }

    #[test]
    fn a_file_has_its_name_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let files = Directory::new(dir.path());
        assert!(files.create_directory("a").unwrap() && !files.create_directory("a").unwrap());
        let mut file = files.create("a/b").unwrap();
        file.write(b"0123").unwrap();
        assert!(files.read("a/b").unwrap().is_none());
        file.finish().unwrap();
        assert_eq!(files.read("a/b").unwrap().unwrap(), b"0123");
        let mut opened = files.open("a/b", 2).unwrap().unwrap();
        let mut rest = String::new();
        opened.reader.read_to_string(&mut rest).unwrap();
        assert_eq!((opened.bytes, rest.as_str()), (4, "23"));
        let entry = |name: &str, is_directory, bytes| Entry { name: name.to_owned(), is_directory, bytes };
        assert_eq!(files.list("a").unwrap().unwrap(), [entry("b", false, 4)]);
        assert!(files.list("b").unwrap().is_none() && files.open("a/c", 0).unwrap().is_none());
        let mut log = files.begin_log("a/l", false).unwrap();
        assert!(files.read("a/l").unwrap().is_none());
        for whole in [&b"head"[..], b"headmore"] {
            log.append(&whole[whole.len() - 4..]).unwrap();
            assert_eq!(files.read("a/l").unwrap().unwrap(), whole);
        }
        std::fs::rename(dir.path().join("a/l"), dir.path().join("a/k")).unwrap();
        assert!(log.append(b"lost").is_err());
        std::fs::write(dir.path().join("a/l"), b"headmore").unwrap();
        assert!(log.append(b"lost").is_err());
        files.remove("a/k").unwrap();
        // One that says less is there until the other one is whole.
        let mut log = files.begin_log("a/l", true).unwrap();
        assert_eq!(files.read("a/l").unwrap().unwrap(), b"headmore");
        log.append(b"new").unwrap();
        assert_eq!(files.read("a/l").unwrap().unwrap(), b"new");
        files.remove("a/c").unwrap();
        files.remove_directory("a").unwrap();
        assert!(files.list("").unwrap().unwrap().is_empty());
    }
}
