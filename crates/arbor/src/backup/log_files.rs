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
//! | 8 | 4 | format version (1; 2 if it is encrypted), little-endian; so are all numbers |
//! | 12 | 4 | length of the deployment's id |
//! | 16 | ... | the deployment's id |
//! | ... | 40 | version 2: the id of the key, and the salt ([`super::cipher`]) |
//! | ... | 4 | CRC-32C of all before |
//! | ... | ... | the blocks: 4 bytes with the length of the block, 4 bytes with the CRC-32C of the length, and the block ([`arbor_txn::fetch::LogBlock`]) |
//!
//! Blocks of version 2 are encrypted, each under its number in the file.
//!
//! A file of an object store has one block, since it does not grow; a process that archives writes one in two seconds, or one of each MB.
//!
//! - A1: a block is durable before the next is asked for. What a killed process leaves at the end of a file is cut short, and passed over.
//! - A2: what is missing shows as a gap between the positions of the blocks, and is named.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use arbor_base::Position;
use arbor_txn::fetch::{Begun, LogBlock, LogBlockHead};
use serde::{Deserialize, Serialize};

use super::cipher::{FileKey, MARK_BYTES, no_key, not_encrypted};
use super::files::{Entry, Files, Growing};
use super::manifest::{TreeFile, seal, unseal};
use super::target::Target;
use super::{Error, Result, damaged, io};

const MAGIC: [u8; 8] = *b"ARBORLGA";
const VERSION: u32 = 1;
const VERSION_ENCRYPTED: u32 = 2;
const HEAD_BYTES: usize = 16;
const DEPLOYMENT_BYTES_MAX: usize = 256;
const FRAME_BYTES: u64 = 8;
/// More than any block has.
const BLOCK_BYTES_MAX: u32 = 1 << 28;
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes that are read rather than passed over.
const SKIPPED_BYTES_MIN: u64 = 1 << 18;
/// Files whose heads are read at once: each of an object store is a request.
const READERS: usize = 8;
const DIRECTORY: &str = "log";
const LOAD: &str = "load.json";

/// The archived log of a target.
#[derive(Clone)]
pub(super) struct LogFiles {
    pub files: Arc<dyn Files>,
}

/// One file, by its name.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    name: String,
    pub path: PathBuf,
    pub first: u64,
    bytes: u64,
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
    pub(super) fn of(target: &Target) -> LogFiles {
        LogFiles { files: Arc::clone(&target.files) }
    }

    /// Keeps others from appending, as long as the returned file is open. Makes the directory if there is none.
    pub(super) fn lock(&self) -> Result<Option<File>> {
        self.files.create_directory(DIRECTORY)?;
        self.files.lock(&format!("{DIRECTORY}/lock"))
    }

    fn path(&self) -> PathBuf {
        self.files.path(DIRECTORY)
    }

    /// All files, in the order of their positions. None without an archive.
    pub(super) fn files(&self) -> Result<Vec<LogFile>> {
        let mut found = Vec::new();
        for entry in self.entries()? {
            if let Some(first) = entry.name.strip_suffix(".log").and_then(|first| first.parse().ok()) {
                let name = format!("{DIRECTORY}/{}", entry.name);
                found.push(LogFile { path: self.files.path(&name), name, first, bytes: entry.bytes });
            }
        }
        found.sort_by_key(|file| file.first);
        Ok(found)
    }

    /// Positions of the records with loads.
    pub(super) fn loads(&self) -> Result<Vec<u64>> {
        let position = |entry: Entry| entry.name.strip_prefix("load-")?.parse().ok();
        let mut found: Vec<u64> = self.entries()?.into_iter().filter_map(position).collect();
        found.sort_unstable();
        Ok(found)
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        Ok(self.files.list(DIRECTORY)?.unwrap_or_default())
    }

    pub(super) fn load_directory(record: u64) -> String {
        format!("{DIRECTORY}/load-{record:020}")
    }

    /// Returns the trees that a record refers to. `None`: they were not archived, or not to the end.
    pub(super) fn load(&self, record: u64) -> Result<Option<LoadFiles>> {
        let name = format!("{}/{LOAD}", LogFiles::load_directory(record));
        let Some(bytes) = self.files.read(&name)? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| "it is no text".to_owned());
        text.and_then(|text| unseal(&text)).map(Some).map_err(|reason| damaged(self.files.path(&name), reason))
    }

    /// Takes note of trees whose files are durable.
    pub(super) fn write_load(&self, load: &LoadFiles) -> Result<()> {
        self.files.write(&format!("{}/{LOAD}", LogFiles::load_directory(load.record)), seal(load).as_bytes())
    }

    /// The heads of all blocks, in the order of their positions. Blocks are not read.
    pub(super) fn heads(&self) -> Result<Vec<LogBlockHead>> {
        let files = self.files()?;
        let part = files.len().div_ceil(READERS).max(1);
        std::thread::scope(|scope| {
            let readers: Vec<_> = files.chunks(part).map(|files| scope.spawn(|| self.heads_of(files))).collect();
            let parts = readers.into_iter().map(|reader| reader.join().expect("a reader of heads does not panic"));
            Ok(parts.collect::<Result<Vec<_>>>()?.concat())
        })
    }

    fn heads_of(&self, files: &[LogFile]) -> Result<Vec<LogBlockHead>> {
        let mut heads = Vec::new();
        for file in files {
            let mut reader = LogReader::open(self, file)?;
            while let Some(head) = reader.next_head()? {
                heads.push(head);
            }
        }
        Ok(heads)
    }

    pub(super) fn bytes(&self) -> Result<u64> {
        Ok(self.files()?.iter().map(|file| file.bytes).sum())
    }

    /// Removes files and loads of which nothing is behind `position`.
    pub(super) fn remove_before(&self, position: u64) -> Result<usize> {
        let (files, mut removed) = (self.files()?, 0);
        for (at, file) in files.iter().enumerate() {
            let next = files.get(at + 1).map(|next| next.first);
            if next.is_some_and(|next| next <= position + 1) {
                self.files.remove(&file.name)?;
                removed += 1;
            }
        }
        for record in self.loads()?.into_iter().filter(|record| *record <= position) {
            self.files.remove_directory(&LogFiles::load_directory(record))?;
        }
        Ok(removed)
    }
}

/// Reads a file from its begin.
pub(super) struct LogReader {
    files: Arc<dyn Files>,
    name: String,
    path: PathBuf,
    file: BufReader<Box<dyn Read + Send>>,
    bytes: u64,
    at: u64,
    key: Option<FileKey>,
    /// Number of the next block.
    number: u64,
    pub deployment: String,
}

impl LogReader {
    pub(super) fn open(log: &LogFiles, own: &LogFile) -> Result<LogReader> {
        let (files, name, path) = (Arc::clone(&log.files), own.name.clone(), own.path.clone());
        let opened = files.open_log(&name, 0)?.ok_or_else(|| damaged(&path, "the file is missing"))?;
        let file = BufReader::with_capacity(BUFFER_BYTES, opened.reader);
        let (bytes, at, number, deployment) = (opened.bytes, 0, 0, String::new());
        let mut reader = LogReader { files, name, path, file, bytes, at, key: None, number, deployment };
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
        if version > VERSION_ENCRYPTED {
            let text =
                format!("its format is {version}; this release reads up to {VERSION_ENCRYPTED}. Use a newer release");
            return Err(self.damaged(text));
        }
        if length > DEPLOYMENT_BYTES_MAX {
            return Err(self.damaged("its head is damaged"));
        }
        let mark_bytes = if version == VERSION_ENCRYPTED { MARK_BYTES } else { 0 };
        let rest = self.take(length + mark_bytes + 4)?;
        let (about, checksum) = rest.split_at(length + mark_bytes);
        head.extend_from_slice(about);
        if crc32c::crc32c(&head).to_le_bytes() != checksum {
            return Err(self.damaged("its head is damaged"));
        }
        let (deployment, mark) = about.split_at(length);
        self.key = match (self.files.cipher(), version) {
            (Some(cipher), VERSION_ENCRYPTED) => Some(cipher.resume(mark, &self.name, &self.path)?),
            (Some(_), _) => return Err(not_encrypted(&self.path)),
            (None, VERSION_ENCRYPTED) => return Err(no_key(&self.path)),
            (None, _) => None,
        };
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
        let bytes = self.block_bytes(length)?;
        let block = LogBlock::decode(&bytes);
        block.map(Some).map_err(|reason| self.damaged(format!("the block at {at}: {reason}")))
    }

    /// The bytes of a block as they were before they were encrypted.
    fn block_bytes(&mut self, length: u32) -> Result<Vec<u8>> {
        let at = self.at;
        let bytes = self.take(length as usize)?;
        let Some(key) = &self.key else { return Ok(bytes) };
        let opened = key.open(self.number, false, bytes);
        self.number += 1;
        opened.ok_or_else(|| self.damaged(format!("the block at {at} is not what was encrypted with this key")))
    }

    fn next_head(&mut self) -> Result<Option<LogBlockHead>> {
        let Some(length) = self.length()? else { return Ok(None) };
        let at = self.at;
        // An encrypted block is read as a whole.
        let bytes = match self.key {
            Some(_) => self.block_bytes(length)?,
            None => self.take((length as usize).min(LogBlockHead::BYTES))?,
        };
        let head = LogBlockHead::decode(bytes.get(..bytes.len().min(LogBlockHead::BYTES)).unwrap_or_default());
        let head = head.ok_or_else(|| self.damaged(format!("the head of the block at {at} is damaged")))?;
        self.skip_to(at + u64::from(length))?;
        Ok(Some(head))
    }

    fn skip_to(&mut self, at: u64) -> Result<()> {
        match at - self.at {
            // The rest of a file may be all of an object.
            _ if at == self.bytes => {}
            short @ ..SKIPPED_BYTES_MIN => {
                self.take(short as usize)?;
            }
            _ => {
                let opened = self.files.open_log(&self.name, at)?.ok_or_else(|| self.damaged("the file is missing"))?;
                self.file = BufReader::with_capacity(BUFFER_BYTES, opened.reader);
            }
        }
        self.at = at;
        Ok(())
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
    file: Option<OpenLog>,
    /// The position behind which the last block had no records: a file of that name may be there.
    quiet: Option<u64>,
    _lock: Option<File>,
}

/// The file to which blocks are appended.
struct OpenLog {
    file: Box<dyn Growing>,
    bytes: u64,
    key: Option<FileKey>,
    /// Blocks that it has.
    blocks: u64,
}

/// The end of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArchiveEnd {
    pub position: Position,
    pub epoch: u64,
    /// A record of the last block refers to loads that may not be here.
    pub pending: Option<LogBlockHead>,
}

/// The last block, if it has no records.
type Quiet = Option<u64>;

impl LogWriter {
    /// Opens the archive of a deployment; removes what an interrupted process left at its end.
    pub(super) fn open(
        files: &LogFiles,
        lock: Option<File>,
        deployment: &str,
    ) -> Result<(LogWriter, Option<ArchiveEnd>)> {
        let (end, quiet) = cut_tail(files, deployment)?;
        let (files, deployment) = (files.clone(), deployment.to_owned());
        Ok((LogWriter { files, deployment, file: None, quiet, _lock: lock }, end))
    }

    pub(super) fn deployment(&self) -> &str {
        &self.deployment
    }

    /// Returns true if files take more than one block.
    pub(super) fn grows(&self) -> bool {
        self.files.files.log_file_bytes() > 1
    }

    /// Ensures on `Ok`: the block is durable (A1).
    pub(super) fn append(&mut self, head: &LogBlockHead, block: &[u8]) -> Result<()> {
        let (files, first) = (&self.files.files, head.first.0);
        let mut added = Vec::new();
        let mut open = match self.file.take().filter(|open| open.bytes < files.log_file_bytes()) {
            Some(open) => open,
            None => {
                let name = format!("{DIRECTORY}/{first:020}.log");
                let (mark, key) = files.cipher().map(|cipher| cipher.begin(&name)).unzip();
                added = self.head(mark.as_ref());
                // The file of that name has no records, only times: it says less than what follows.
                OpenLog { file: files.begin_log(&name, self.quiet == Some(first))?, bytes: 0, key, blocks: 0 }
            }
        };
        let sealed = open.key.as_ref().map(|key| key.seal(open.blocks, false, block));
        let block = sealed.as_deref().unwrap_or(block);
        let length = (block.len() as u32).to_le_bytes();
        added.extend(length);
        added.extend(crc32c::crc32c(&length).to_le_bytes());
        added.extend(block);
        open.file.append(&added)?;
        open.bytes += added.len() as u64;
        open.blocks += 1;
        self.quiet = (head.count == 0).then_some(first);
        self.file = Some(open);
        Ok(())
    }

    /// The begin of a file.
    fn head(&self, mark: Option<&[u8; MARK_BYTES]>) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend(if mark.is_some() { VERSION_ENCRYPTED } else { VERSION }.to_le_bytes());
        head.extend((self.deployment.len() as u32).to_le_bytes());
        head.extend(self.deployment.as_bytes());
        head.extend(mark.into_iter().flatten());
        head.extend(crc32c::crc32c(&head).to_le_bytes());
        head
    }
}

/// Cuts the last file behind its last whole block.
fn cut_tail(log: &LogFiles, deployment: &str) -> Result<(Option<ArchiveEnd>, Quiet)> {
    let mut all = log.files()?;
    while let Some(file) = all.pop() {
        let bytes = file.bytes;
        let (mut end, mut quiet) = (None, None);
        // Nothing but an interrupted head, which no block follows.
        let mark_bytes = if log.files.cipher().is_some() { MARK_BYTES } else { 0 };
        if bytes >= (HEAD_BYTES + deployment.len() + mark_bytes + 4) as u64 {
            let mut reader = LogReader::open(log, &file)?;
            if reader.deployment != deployment {
                return Err(Error::Refused(format!(
                    "{} has the log of another deployment (id {}); this one has the id {deployment}. Take another directory",
                    log.path().display(),
                    reader.deployment
                )));
            }
            while let Some(block) = reader.next_block()? {
                let head = block.head;
                quiet = (head.count == 0).then_some(head.first.0);
                end = Some(ArchiveEnd {
                    position: head.last(),
                    epoch: head.epoch,
                    pending: head.has_loads.then_some(head),
                });
            }
            if reader.whole() < bytes {
                log.files.cut(&file.name, reader.whole())?;
            }
        }
        if end.is_some() {
            return Ok((end, quiet));
        }
        log.files.remove(&file.name)?;
    }
    Ok((None, None))
}
