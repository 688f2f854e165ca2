//! `arbor.syncing`: the directory holds no state that ever was, since an initial sync has begun and not ended (G3).
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic `ARBORSYN` |
//! | 8 | 4 | format version (1), little-endian |
//! | 12 | 4 | zero |
//! | 16 | 8 | position of the state that is fetched, little-endian |
//! | 24 | 4 | CRC-32C of bytes 0..24, little-endian |
//!
//! The file is replaced as a whole. One that is damaged says no position: the sync begins from its first tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_base::{Fields, Position};
use arbor_disk::{Disk, OpenMode};

use crate::error::log_error;
use crate::{Error, Result};

/// Name of the file in the data directory.
pub const SYNCING_FILE: &str = "arbor.syncing";

const MAGIC: [u8; 8] = *b"ARBORSYN";
const VERSION: u32 = 1;
const BYTES: usize = 28;

/// State of a member that has no state of the set yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Syncing {
    #[default]
    No,
    /// A sync was interrupted.
    Needed,
    /// The log takes records behind the state that is being fetched; none of them is applied.
    Running,
}

/// The place of the file.
#[derive(Clone, Debug)]
pub struct SyncMarker {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

fn failed(error: arbor_disk::Error) -> Error {
    log_error(arbor_log::Error::from(error))
}

impl SyncMarker {
    pub fn new(disk: Arc<dyn Disk>, dir: &Path) -> SyncMarker {
        SyncMarker { disk, dir: dir.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(SYNCING_FILE)
    }

    /// The position of the state that was being fetched; `None`: no sync was interrupted.
    pub fn read(&self) -> Result<Option<Position>> {
        let bytes = self.bytes_of(SYNCING_FILE)?;
        let position = |bytes: Vec<u8>| bytes.as_slice().try_into().ok().and_then(decode).unwrap_or_default();
        Ok(bytes.map(position))
    }

    /// Ensures on `Ok`: the file is durable.
    pub(super) fn write(&self, position: Position) -> Result<()> {
        let bytes = encode(position);
        assert_eq!(decode(&bytes), Some(position), "the file reads as it was written");
        self.replace(SYNCING_FILE, &bytes)
    }

    /// Replaces a file of the data directory as a whole. Ensures on `Ok`: it is durable.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let write = || -> arbor_disk::Result<()> {
            let (path, new) = (self.dir.join(name), self.dir.join(format!("{name}.new")));
            self.disk.create_dir_all(&self.dir)?;
            if self.disk.exists(&new)? {
                self.disk.remove(&new)?;
            }
            let file = self.disk.open(&new, OpenMode::CreateNew)?;
            file.write_at(bytes, 0)?;
            file.sync_data()?;
            self.disk.rename(&new, &path)?;
            self.disk.sync_dir(&self.dir)
        };
        write().map_err(failed)
    }

    /// Returns the bytes of a file of the data directory, if it is there.
    pub(super) fn bytes_of(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let read = || -> arbor_disk::Result<Option<Vec<u8>>> {
            let path = self.dir.join(name);
            if !self.disk.exists(&path)? {
                return Ok(None);
            }
            let file = self.disk.open(&path, OpenMode::Read)?;
            let mut bytes = vec![0; file.len()? as usize];
            let read = file.read_at(&mut bytes, 0)?;
            bytes.truncate(read);
            Ok(Some(bytes))
        };
        read().map_err(failed)
    }

    /// Requires that engine and log are durable.
    pub(super) fn remove(&self) -> Result<()> {
        self.disk.remove(&self.path()).and_then(|()| self.disk.sync_dir(&self.dir)).map_err(failed)
    }
}

fn encode(position: Position) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[16..24].copy_from_slice(&position.0.to_le_bytes());
    let crc = crc32c::crc32c(&out[..24]);
    out[24..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// `None`: it is damaged, or of a newer release.
fn decode(bytes: &[u8; BYTES]) -> Option<Position> {
    let (covered, checksum) = bytes.split_last_chunk::<4>()?;
    let mut fields = Fields::new(covered);
    let is_whole = fields.array() == Some(MAGIC) && fields.u32() == Some(VERSION);
    let _zero = fields.u32();
    let position = fields.u64()?;
    (is_whole && crc32c::crc32c(covered) == u32::from_le_bytes(*checksum)).then_some(Position(position))
}
