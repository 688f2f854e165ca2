//! The file `checkpoint.meta`, which makes one committed state survive a power loss.
//!
//! LMDB runs with `MDB_NOSYNC`: commits write to the page cache and never sync. LMDB never writes over a page of a state
//! that a read transaction still sees (freed pages carry the number of the transaction that freed them, and only those
//! older than the oldest reader are used again: `mdb_page_alloc`, `mdb_find_oldest`). So:
//!
//! 1. under the writer mutex, begin a read transaction on the newest state and copy that state's meta page (the root of
//!    everything, 152 bytes) from the data file; outside of the mutex wait until the log is durable up to its position;
//! 2. sync the data file: every page of the state was written before its commit ended, so all are on the device now;
//! 3. write the copy to `checkpoint.new`, sync it, rename it to `checkpoint.meta`, sync the directory;
//! 4. end the read transaction of the checkpoint before: its pages may be used again.
//!
//! A crash between any two steps leaves a `checkpoint.meta` whose state is complete in the data file, for both the
//! old and the new state are pinned until the end. At every open both meta pages of the data file are written over with the
//! copy, so LMDB sees exactly the checkpointed state, whatever later pages and metas reached the device. This is done
//! after a clean shutdown as well, which is a checkpoint, so there is one path to prove.
//!
//! Layout of the file, little-endian:
//!
//! | offset | size | |
//! |---|---|---|
//! | 0 | 8 | `ArborLM1` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | page size of the data file |
//! | 16 | 8 | applied position |
//! | 24 | 8 | LMDB transaction |
//! | 32 | 152 | the meta page's beginning: page header 16, `MDB_meta` 136 (magic at 16, last page at 136, txnid at 144) |
//! | 184 | 4 | 1 if the counts in the tree records are right, 0 if there was no space to write them |
//! | 188 | 4 | CRC-32C of all before |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use arbor_base::{Fields, Position};
use arbor_engine::{Error, Result};

use crate::directory::Directory;
use crate::files::{CHECKPOINT_FILE, DATA_FILE, io_error};

const FILE_NEW: &str = "checkpoint.new";

const MAGIC: [u8; 8] = *b"ArborLM1";
const FORMAT_VERSION: u32 = 1;
const META_BYTES: usize = 152;
const FILE_BYTES: usize = 32 + META_BYTES + 4 + 4;

const LMDB_MAGIC: u32 = 0xBEEF_C0DE;
/// `P_META` of mdb.c.
const META_PAGE_FLAG: u16 = 0x08;

/// One checkpointed state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checkpoint {
    pub page_bytes: u32,
    pub position: Position,
    pub txn_id: u64,
    /// True if the tree records hold the right counts; otherwise the next open counts.
    pub counted: bool,
    meta: [u8; META_BYTES],
}

/// The root page of a tree, and how many pages are on the way from it to a leaf, both included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    pub page: u64,
    pub depth: u16,
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

impl Checkpoint {
    /// Copies the meta page of a committed state. Requires that no later state but one was committed since.
    pub(crate) fn of_state(
        data: &File,
        page_bytes: usize,
        txn_id: u64,
        position: Position,
        counted: bool,
    ) -> Result<Checkpoint> {
        let mut meta = [0; META_BYTES];
        // Transaction n writes meta page n % 2; a state restored by `restore` is in both.
        data.read_exact_at(&mut meta, (txn_id % 2) * page_bytes as u64).map_err(|e| io_error("read meta page", e))?;
        let checkpoint = Checkpoint { page_bytes: page_bytes as u32, position, txn_id, counted, meta };
        if u32_at(&meta, 16) != LMDB_MAGIC || checkpoint.meta_txn_id() != txn_id {
            return Err(Error::Corrupt {
                place: "meta page".to_owned(),
                context: format!("shows transaction {} instead of {txn_id}", checkpoint.meta_txn_id()),
            });
        }
        Ok(checkpoint)
    }

    /// Returns the beginning of a meta page: its number, its flags, and the state.
    fn meta_page(&self, number: u64) -> Vec<u8> {
        let mut flags = Fields::new(&self.meta);
        let kept = flags.bytes(8).and_then(|_| flags.bytes(2)).unwrap_or_default();
        let state = flags.bytes(2).map(|_| flags.rest()).unwrap_or_default();
        [&number.to_le_bytes(), kept, &META_PAGE_FLAG.to_le_bytes(), state].concat()
    }

    fn meta_txn_id(&self) -> u64 {
        u64_at(&self.meta, 144)
    }

    pub(crate) fn pages(&self) -> u64 {
        u64_at(&self.meta, 136) + 1
    }

    /// The free list, and the database of all rows (`mm_dbs`: depth at 6, root at 40 of 48 bytes each).
    pub(crate) fn roots(&self) -> [Root; 2] {
        [40, 88].map(|at| Root { page: u64_at(&self.meta, at + 40), depth: (u64_at(&self.meta, at) >> 48) as u16 })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.page_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.position.0.to_le_bytes());
        bytes.extend_from_slice(&self.txn_id.to_le_bytes());
        bytes.extend_from_slice(&self.meta);
        bytes.extend_from_slice(&u32::from(self.counted).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        assert!(bytes.len() == FILE_BYTES, "the file has one length: {}", bytes.len());
        bytes
    }

    /// Errors: a newer format, or bytes that are not a checkpoint; the text goes into `CannotOpen` or `Corrupt`.
    fn decode(bytes: &[u8], path: &Path) -> Result<Checkpoint> {
        let cannot = |reason: String| Error::CannotOpen { path: path.display().to_string(), reason };
        if !bytes.starts_with(&MAGIC) {
            return Err(cannot("not a checkpoint of the lmdb engine".to_owned()));
        }
        let version = u32_at(bytes, 8);
        if version > FORMAT_VERSION {
            let reason = format!("written by a newer format ({version}; this version knows up to {FORMAT_VERSION})");
            return Err(cannot(reason));
        }
        let bytes: &[u8; FILE_BYTES] =
            bytes.try_into().map_err(|_| cannot(format!("{} bytes instead of {FILE_BYTES}", bytes.len())))?;
        let (summed, sum) = bytes.split_last_chunk::<4>().expect("the checksum is a part of the file's bytes");
        if crc32c::crc32c(summed) != u32::from_le_bytes(*sum) {
            return Err(Error::Corrupt { place: path.display().to_string(), context: "checksum".to_owned() });
        }
        Ok(Checkpoint::of_fields(Fields::new(summed)).expect("the fields are as long as the file without its checksum"))
    }

    fn of_fields(mut fields: Fields<'_>) -> Option<Checkpoint> {
        fields.bytes(MAGIC.len() + size_of_val(&FORMAT_VERSION))?;
        let page_bytes = fields.u32()?;
        let (position, txn_id) = (Position(fields.u64()?), fields.u64()?);
        let meta = fields.array()?;
        let counted = fields.u8()? == 1;
        Some(Checkpoint { page_bytes, position, txn_id, counted, meta })
    }

    pub(crate) fn load(dir: &Path) -> Result<Checkpoint> {
        let path = dir.join(CHECKPOINT_FILE);
        let bytes = fs::read(&path).map_err(|e| io_error("read checkpoint.meta", e))?;
        Checkpoint::decode(&bytes, &path)
    }

    /// Steps 3 of the module. An error before the rename leaves the file as it was (`OutOfSpace`); from the sync on the
    /// outcome is unknown (`Poisoned`).
    pub(crate) fn save(&self, directory: &Directory) -> Result<()> {
        let new = directory.path.join(FILE_NEW);
        let mut file = File::create(&new).map_err(|e| io_error("create checkpoint.new", e))?;
        file.write_all(&self.encode()).map_err(|e| io_error("write checkpoint.new", e))?;
        let poisoned = |context: &str| {
            let context = context.to_owned();
            move |e: io::Error| Error::Poisoned { context: format!("{context}: {e}") }
        };
        file.sync_all().map_err(poisoned("sync checkpoint.new"))?;
        fs::rename(&new, directory.path.join(CHECKPOINT_FILE)).map_err(poisoned("rename checkpoint.new"))?;
        directory.sync().map_err(poisoned("sync the directory"))
    }

    /// Writes the state's meta over both meta pages of the data file. Requires: LMDB does not have it open.
    pub(crate) fn restore(&self, dir: &Path) -> Result<()> {
        let path = dir.join(DATA_FILE);
        let data = OpenOptions::new().read(true).write(true).open(&path).map_err(|e| io_error("open data.mdb", e))?;
        // The file may end before the state's last page where that page is free. Reading beyond the end would kill the
        // process, a page of zeros is an error of one operation.
        let bytes = self.pages() * u64::from(self.page_bytes);
        if data.metadata().map_err(|e| io_error("size of data.mdb", e))?.len() < bytes {
            data.set_len(bytes).map_err(|e| io_error("extend data.mdb", e))?;
        }
        for page in 0..2u64 {
            let image = self.meta_page(page);
            data.write_all_at(&image, page * u64::from(self.page_bytes)).map_err(|e| io_error("write meta page", e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_written_and_refused_otherwise() {
        let checkpoint =
            Checkpoint { page_bytes: 4096, position: Position(7), txn_id: 9, counted: true, meta: [5; META_BYTES] };
        let path = Path::new("checkpoint.meta");
        let good = checkpoint.encode();
        assert_eq!(Checkpoint::decode(&good, path).unwrap(), checkpoint);
        let changed = |offset: usize| {
            let mut bytes = good.to_vec();
            bytes[offset] ^= 1;
            Checkpoint::decode(&bytes, path).unwrap_err()
        };
        for offset in 12..FILE_BYTES {
            assert!(matches!(changed(offset), Error::Corrupt { .. }), "offset {offset}");
        }
        assert!(matches!(changed(0), Error::CannotOpen { .. }));
        let mut newer = good.clone();
        newer[8] = 2;
        let text = Checkpoint::decode(&newer, path).unwrap_err().to_string();
        assert_eq!(text, "cannot open checkpoint.meta: written by a newer format (2; this version knows up to 1)");
        assert!(Checkpoint::decode(&good[..FILE_BYTES - 1], path).is_err());
        assert!(Checkpoint::decode(&[], path).is_err());
    }
}
