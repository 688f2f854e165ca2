//! `log/`: the archived log of a deployment, in the directory of its backups.
//!
//! | file | what |
//! |---|---|
//! | `POSITION.log` | records from that position on |
//! | `load-POSITION/` | trees that the record at the position refers to and that are in no record: `tree-N.rows`, and `load.json`, which is written last |
//! | `lock` | locked by the process that archives |
//!
//! A `.log` file:
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic `ARBORLGA` |
//! | 8 | 4 | format version (1), little-endian; so are all numbers |
//! | 12 | 4 | length of the deployment's id |
//! | 16 | ... | the deployment's id |
//! | ... | 4 | CRC-32C of all before |
//! | ... | ... | the blocks: 4 bytes with the length of the block, 4 bytes with the CRC-32C of the length, and the block ([`arbor_txn::fetch::LogBlock`]) |
//!
//! - A1: a block is on the disk before the next is asked for. What a killed process leaves at the end of a file is cut short, and passed over.
//! - A2: what is missing shows as a gap between the positions of the blocks, and is named.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arbor_base::Position;
use arbor_txn::fetch::{Begun, LogBlock, LogBlockHead};
use serde::{Deserialize, Serialize};

use super::manifest::{TreeFile, seal, unseal};
use super::target::sync_directory;
use super::{Error, Result, damaged, io};

const MAGIC: [u8; 8] = *b"ARBORLGA";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 16;
const DEPLOYMENT_BYTES_MAX: usize = 256;
const FRAME_BYTES: u64 = 8;
/// More than any block has.
const BLOCK_BYTES_MAX: u32 = 1 << 28;
/// Bytes of a file beyond which the next begins.
const FILE_BYTES: u64 = 64 << 20;
const LOAD: &str = "load.json";

/// The archived log of a directory of backups.
#[derive(Clone, Debug)]
pub(super) struct LogFiles {
    pub directory: PathBuf,
}

/// One file, by its name.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    pub path: PathBuf,
    pub first: u64,
}

/// Trees that came past the log, as they were at a later position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoadFiles {
    /// The record that refers to them.
    pub record: u64,
    /// The state from which they were read. At the positions from the record to the one before this the trees are not known.
    pub position: u64,
    pub files: Vec<TreeFile>,
}

impl LoadFiles {
    /// The state as a peer describes it.
    pub(super) fn state(&self, epoch: u64) -> Begun {
        Begun { snapshot: 0, position: Position(self.position), epoch, time: 0, trees: Vec::new() }
    }
}

impl LogFiles {
    pub(super) fn of(target: &Path) -> LogFiles {
        LogFiles { directory: target.join("log") }
    }

    /// Keeps others from appending, as long as the returned file is open. Makes the directory if there is none.
    pub(super) fn lock(&self) -> Result<File> {
        if !self.directory.is_dir() {
            std::fs::create_dir(&self.directory).map_err(io("create", &self.directory))?;
        }
        let path = self.directory.join("lock");
        let lock = File::create(&path).map_err(io("create", &path))?;
        let busy = |_| Error::Refused(format!("another process archives into {}", self.directory.display()));
        lock.try_lock().map_err(busy)?;
        Ok(lock)
    }

    /// All files, in the order of their positions. None without an archive.
    pub(super) fn files(&self) -> Result<Vec<LogFile>> {
        let mut found = Vec::new();
        for (name, path) in self.entries()? {
            if let Some(first) = name.strip_suffix(".log").and_then(|first| first.parse().ok()) {
                found.push(LogFile { path, first });
            }
        }
        found.sort_by_key(|file| file.first);
        Ok(found)
    }

    /// Positions of the records with loads.
    pub(super) fn loads(&self) -> Result<Vec<u64>> {
        let position = |(name, _): (String, PathBuf)| name.strip_prefix("load-")?.parse().ok();
        let mut found: Vec<u64> = self.entries()?.into_iter().filter_map(position).collect();
        found.sort_unstable();
        Ok(found)
    }

    fn entries(&self) -> Result<Vec<(String, PathBuf)>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io("read", &self.directory))?,
        };
        let entry = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.map_err(io("read", &self.directory))?;
            Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
        };
        entries.map(entry).collect()
    }

    pub(super) fn load_directory(&self, record: u64) -> PathBuf {
        self.directory.join(format!("load-{record:020}"))
    }

    /// Returns the trees that a record refers to. `None`: they were not archived, or not to the end.
    pub(super) fn load(&self, record: u64) -> Result<Option<LoadFiles>> {
        let path = self.load_directory(record).join(LOAD);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(io("read", &path))?,
        };
        unseal(&text).map(Some).map_err(|reason| damaged(path, reason))
    }

    /// Takes note of trees whose files are on the disk.
    pub(super) fn write_load(&self, load: &LoadFiles) -> Result<()> {
        let directory = self.load_directory(load.record);
        let (path, new) = (directory.join(LOAD), directory.join("load.new"));
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(seal(load).as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &path)
        };
        sync_directory(&directory)?;
        write().map_err(io("write", &path))?;
        sync_directory(&directory)?;
        sync_directory(&self.directory)
    }

    /// The heads of all blocks, in the order of their positions. Blocks are not read.
    pub(super) fn heads(&self) -> Result<Vec<LogBlockHead>> {
        let mut heads = Vec::new();
        for file in self.files()? {
            let mut reader = LogReader::open(&file)?;
            while let Some(head) = reader.next_head()? {
                heads.push(head);
            }
        }
        Ok(heads)
    }

    pub(super) fn bytes(&self) -> Result<u64> {
        let size =
            |file: LogFile| std::fs::metadata(&file.path).map(|found| found.len()).map_err(io("read", file.path));
        self.files()?.into_iter().map(size).sum()
    }

    /// Removes files and loads of which nothing is behind `position`.
    pub(super) fn remove_before(&self, position: u64) -> Result<usize> {
        let (files, mut removed) = (self.files()?, 0);
        for (at, file) in files.iter().enumerate() {
            let next = files.get(at + 1).map(|next| next.first);
            if next.is_some_and(|next| next <= position + 1) {
                std::fs::remove_file(&file.path).map_err(io("remove", &file.path))?;
                removed += 1;
            }
        }
        for record in self.loads()?.into_iter().filter(|record| *record <= position) {
            let path = self.load_directory(record);
            std::fs::remove_dir_all(&path).map_err(io("remove", path))?;
        }
        Ok(removed)
    }
}

/// Reads a file from its begin.
pub(super) struct LogReader {
    path: PathBuf,
    file: BufReader<File>,
    bytes: u64,
    at: u64,
    pub deployment: String,
}

impl LogReader {
    pub(super) fn open(file: &LogFile) -> Result<LogReader> {
        let path = file.path.clone();
        let opened = File::open(&path).map_err(io("open", &path))?;
        let bytes = opened.metadata().map_err(io("open", &path))?.len();
        let file = BufReader::with_capacity(1 << 20, opened);
        let mut reader = LogReader { path, file, bytes, at: 0, deployment: String::new() };
        reader.deployment = reader.read_head()?;
        Ok(reader)
    }

    fn damaged(&self, reason: impl Into<String>) -> Error {
        damaged(&self.path, reason)
    }

    fn read_head(&mut self) -> Result<String> {
        let mut head = self.take(HEAD_BYTES)?;
        let number =
            |at: usize| head.get(at..at + 4).and_then(|found| found.try_into().ok()).map_or(0, u32::from_le_bytes);
        let (version, length) = (number(8), number(12) as usize);
        if head.get(..8) != Some(&MAGIC[..]) {
            return Err(self.damaged("its head is not that of an archived log"));
        }
        if version > VERSION {
            let text = format!("its format is {version}; this release reads up to {VERSION}. Use a newer release");
            return Err(self.damaged(text));
        }
        if length > DEPLOYMENT_BYTES_MAX {
            return Err(self.damaged("its head is damaged"));
        }
        let rest = self.take(length + 4)?;
        let (deployment, checksum) = rest.split_at(length);
        head.extend_from_slice(deployment);
        if crc32c::crc32c(&head).to_le_bytes() != checksum {
            return Err(self.damaged("its head is damaged"));
        }
        String::from_utf8(deployment.to_vec()).map_err(|_| self.damaged("its head is damaged"))
    }

    fn take(&mut self, bytes: usize) -> Result<Vec<u8>> {
        let mut taken = vec![0; bytes];
        self.file.read_exact(&mut taken).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged("the file is cut short"),
            _ => io("read", &self.path)(error),
        })?;
        self.at += bytes as u64;
        Ok(taken)
    }

    /// Returns the length of the next block. `None`: the file ends, or what follows was not written to its end (A1).
    fn length(&mut self) -> Result<Option<u32>> {
        if self.at + FRAME_BYTES > self.bytes {
            return Ok(None);
        }
        let frame = self.take(FRAME_BYTES as usize)?;
        let (length, checksum) = frame.split_at(4);
        if crc32c::crc32c(length).to_le_bytes() != checksum {
            return Err(self.damaged(format!("the length of the block at {} is damaged", self.at - FRAME_BYTES)));
        }
        let length = length.try_into().map_or(u32::MAX, u32::from_le_bytes);
        if length > BLOCK_BYTES_MAX {
            return Err(self.damaged(format!("the block at {} is too long", self.at - FRAME_BYTES)));
        }
        if self.at + u64::from(length) > self.bytes {
            self.at -= FRAME_BYTES;
            return Ok(None);
        }
        Ok(Some(length))
    }

    /// The next block, decoded.
    pub(super) fn next_block(&mut self) -> Result<Option<LogBlock>> {
        let Some(length) = self.length()? else { return Ok(None) };
        let at = self.at;
        let bytes = self.take(length as usize)?;
        let block = LogBlock::decode(&bytes);
        block.map(Some).map_err(|reason| self.damaged(format!("the block at {at}: {reason}")))
    }

    fn next_head(&mut self) -> Result<Option<LogBlockHead>> {
        let Some(length) = self.length()? else { return Ok(None) };
        let at = self.at;
        let head_bytes = (length as usize).min(LogBlockHead::BYTES);
        let head = LogBlockHead::decode(&self.take(head_bytes)?);
        let head = head.ok_or_else(|| self.damaged(format!("the head of the block at {at} is damaged")))?;
        self.at = at + u64::from(length);
        self.file.seek(SeekFrom::Start(self.at)).map_err(io("read", &self.path))?;
        Ok(Some(head))
    }

    /// Bytes that hold whole blocks, as far as was read.
    fn whole(&self) -> u64 {
        self.at
    }
}

/// Appends to the archive. Only one at a time.
pub(super) struct LogWriter {
    files: LogFiles,
    deployment: String,
    file: Option<(PathBuf, File, u64)>,
    _lock: File,
}

/// The end of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArchiveEnd {
    pub position: Position,
    pub epoch: u64,
    /// A record of the last block refers to loads that may not be here.
    pub pending: Option<LogBlockHead>,
}

impl LogWriter {
    /// Opens the archive of a deployment; removes what an interrupted process left at its end.
    pub(super) fn open(files: &LogFiles, lock: File, deployment: &str) -> Result<(LogWriter, Option<ArchiveEnd>)> {
        let end = cut_tail(files, deployment)?;
        let writer = LogWriter { files: files.clone(), deployment: deployment.to_owned(), file: None, _lock: lock };
        Ok((writer, end))
    }

    pub(super) fn deployment(&self) -> &str {
        &self.deployment
    }

    /// Ensures on `Ok`: the block is on the disk.
    pub(super) fn append(&mut self, head: &LogBlockHead, block: &[u8]) -> Result<()> {
        let (path, mut file, mut bytes) = match self.file.take().filter(|(_, _, bytes)| *bytes < FILE_BYTES) {
            Some(open) => open,
            None => self.begin(head.first)?,
        };
        let length = (block.len() as u32).to_le_bytes();
        let frame = [&length[..], &crc32c::crc32c(&length).to_le_bytes(), block].concat();
        file.write_all(&frame).and_then(|()| file.sync_data()).map_err(io("write", &path))?;
        bytes += frame.len() as u64;
        self.file = Some((path, file, bytes));
        Ok(())
    }

    fn begin(&self, first: Position) -> Result<(PathBuf, File, u64)> {
        let path = self.files.directory.join(format!("{:020}.log", first.0));
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend((self.deployment.len() as u32).to_le_bytes());
        head.extend(self.deployment.as_bytes());
        head.extend(crc32c::crc32c(&head).to_le_bytes());
        // The file of that name has no records, only times: it says less than what follows.
        let mut file = File::create(&path).map_err(io("create", &path))?;
        file.write_all(&head).and_then(|()| file.sync_all()).map_err(io("write", &path))?;
        sync_directory(&self.files.directory)?;
        Ok((path, file, head.len() as u64))
    }
}

/// Cuts the last file behind its last whole block.
fn cut_tail(files: &LogFiles, deployment: &str) -> Result<Option<ArchiveEnd>> {
    let mut all = files.files()?;
    while let Some(file) = all.pop() {
        let bytes = std::fs::metadata(&file.path).map_err(io("read", &file.path))?.len();
        let mut end = None;
        // Nothing but an interrupted head, which no block follows.
        if bytes >= (HEAD_BYTES + deployment.len() + 4) as u64 {
            let mut reader = LogReader::open(&file)?;
            if reader.deployment != deployment {
                return Err(Error::Refused(format!(
                    "{} has the log of another deployment (id {}); this one has the id {deployment}. Take another directory",
                    files.directory.display(),
                    reader.deployment
                )));
            }
            while let Some(block) = reader.next_block()? {
                let head = block.head;
                end = Some(ArchiveEnd {
                    position: head.last(),
                    epoch: head.epoch,
                    pending: head.has_loads.then_some(head),
                });
            }
            if reader.whole() < bytes {
                let opened = File::options().write(true).open(&file.path).map_err(io("open", &file.path))?;
                opened.set_len(reader.whole()).and_then(|()| opened.sync_all()).map_err(io("write", &file.path))?;
            }
        }
        if end.is_some() {
            return Ok(end);
        }
        std::fs::remove_file(&file.path).map_err(io("remove", &file.path))?;
    }
    Ok(None)
}
