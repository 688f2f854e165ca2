//! `arbor.member`: whose data a directory holds, and the highest epoch that it has acted on.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic `ARBORMEM` |
//! | 8 | 4 | format version (1), little-endian |
//! | 12 | 4 | zero |
//! | 16 | 16 | UUID of the store |
//! | 32 | 8 | highest epoch, little-endian |
//! | 40 | 20 | zero |
//! | 60 | 4 | CRC-32C of bytes 0..60, little-endian |
//!
//! - M1: an epoch is durable here before anything is done in it. So a member that has promised itself to one never
//!   takes records of an earlier one, also after a crash.
//! - M2: the file is replaced as a whole; a crash leaves the old one or the new one.
//!
//! The log cannot take the place of this file: an epoch without a durable record leaves no trace there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_base::Fields;
use arbor_disk::{Disk, OpenMode};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{Error, Result};

/// Name of the file in the data directory.
pub const MEMBER_FILE: &str = "arbor.member";

const MAGIC: [u8; 8] = *b"ARBORMEM";
const VERSION: u32 = 1;
const BYTES: usize = 64;

/// Identity and highest epoch of one data directory. Shared by all threads.
#[derive(Debug)]
pub struct Member {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    store: Uuid,
    epoch: Mutex<u64>,
}

impl Member {
    /// Opens the file in `dir`; one that is not there is created with a UUID of its own and epoch 0.
    ///
    /// Errors: [`Error::Member`] when it is damaged or of a newer release.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Member> {
        let path = dir.join(MEMBER_FILE);
        if !disk.exists(&path)? {
            let own = Member { disk, dir: dir.to_owned(), store: Uuid::new_v4(), epoch: Mutex::new(0) };
            own.disk.create_dir_all(dir)?;
            own.write(0)?;
            return Ok(own);
        }
        let file = disk.open(&path, OpenMode::Read)?;
        let mut bytes = [0; BYTES];
        let fits = file.len()? == BYTES as u64 && file.read_at(&mut bytes, 0)? == BYTES;
        let read = if fits { decode(&bytes) } else { Err(DAMAGED) };
        let (store, epoch) = read.map_err(|reason| Error::Member { path, reason })?;
        Ok(Member { disk, dir: dir.to_owned(), store, epoch: Mutex::new(epoch) })
    }

    /// Names the data: a member that comes back with another one is another member.
    pub fn store(&self) -> Uuid {
        self.store
    }

    /// The highest epoch that was seen.
    pub fn epoch(&self) -> u64 {
        *self.epoch.lock()
    }

    /// Takes note of an epoch before anything is done in it (M1). Without effect when it is the highest seen already.
    ///
    /// Errors: [`Error::StaleEpoch`] for one before it: what was asked for in its name is to be refused.
    pub fn enter(&self, epoch: u64) -> Result<()> {
        let mut highest = self.epoch.lock();
        if epoch < *highest {
            return Err(Error::StaleEpoch { epoch, current: *highest });
        }
        if epoch > *highest {
            self.write(epoch)?;
            *highest = epoch;
        }
        Ok(())
    }

    fn write(&self, epoch: u64) -> Result<()> {
        let (path, new) = (self.dir.join(MEMBER_FILE), self.dir.join("arbor.member.new"));
        if self.disk.exists(&new)? {
            self.disk.remove(&new)?;
        }
        let file = self.disk.open(&new, OpenMode::CreateNew)?;
        let bytes = encode(self.store, epoch);
        assert_eq!(decode(&bytes), Ok((self.store, epoch)), "the file reads as it was written");
        file.write_at(&bytes, 0)?;
        file.sync_data()?;
        self.disk.rename(&new, &path)?;
        self.disk.sync_dir(&self.dir)?;
        Ok(())
    }
}

fn encode(store: Uuid, epoch: u64) -> [u8; BYTES] {
    let mut out = Vec::with_capacity(BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(store.as_bytes());
    out.extend_from_slice(&epoch.to_le_bytes());
    out.resize(BYTES - 4, 0);
    out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
    out.try_into().expect("the fields of the table")
}

const DAMAGED: &str = "is damaged: restore a copy of it, or remove it to join the set as a new member";

fn decode(bytes: &[u8; BYTES]) -> Result<(Uuid, u64), &'static str> {
    let (covered, checksum) = bytes.split_last_chunk::<4>().ok_or(DAMAGED)?;
    let mut fields = Fields::new(covered);
    let (magic, version) = (fields.array().ok_or(DAMAGED)?, fields.u32().ok_or(DAMAGED)?);
    if magic == MAGIC && version > VERSION {
        return Err("was written by a newer release");
    }
    if magic != MAGIC || crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
        return Err(DAMAGED);
    }
    let _zero = fields.u32();
    let store = fields.array().ok_or(DAMAGED)?;
    Ok((Uuid::from_bytes(store), fields.u64().ok_or(DAMAGED)?))
}

#[cfg(test)]
mod tests {
    use arbor_disk::{Fault, FaultyDisk};

    use super::*;

    const DIR: &str = "/data";

    fn open(disk: &FaultyDisk) -> Result<Member> {
        Member::open(Arc::new(disk.clone()), Path::new(DIR))
    }

    fn path() -> PathBuf {
        Path::new(DIR).join(MEMBER_FILE)
    }

    #[test]
    fn the_highest_epoch_is_kept_and_earlier_ones_are_refused() {
        let disk = FaultyDisk::new();
        let member = open(&disk).unwrap();
        let store = member.store();
        assert_eq!(member.epoch(), 0);
        member.enter(3).unwrap();
        member.enter(3).unwrap();
        assert!(matches!(member.enter(2), Err(Error::StaleEpoch { epoch: 2, current: 3 })));
        let again = open(&disk.crash(1)).unwrap();
        assert_eq!((again.store(), again.epoch()), (store, 3));
        assert_ne!(open(&FaultyDisk::new()).unwrap().store(), store);
    }

    #[test]
    fn every_failing_call_leaves_an_epoch_that_was_entered() {
        for fault in [Fault::Io, Fault::OutOfSpace, Fault::ShortWrite] {
            for n in 0.. {
                let disk = FaultyDisk::new();
                let member = open(&disk).unwrap();
                member.enter(1).unwrap();
                disk.fail_nth(n, fault);
                let entered = member.enter(2).is_ok();
                for seed in 0..4 {
                    let again = open(&disk.crash(seed)).unwrap();
                    assert_eq!(again.store(), member.store());
                    assert!(again.epoch() == 2 || (!entered && again.epoch() == 1), "call {n}");
                }
                if !disk.fault_triggered() {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_damaged_or_newer_file_is_refused() {
        let disk = FaultyDisk::new();
        open(&disk).unwrap().enter(5).unwrap();
        let whole = disk.contents(&path()).unwrap();
        let refusal = |bytes: &[u8]| {
            let image = disk.kill_process();
            image.plant(&path(), bytes);
            open(&image).unwrap_err().to_string()
        };
        (0..whole.len()).for_each(|end| assert!(refusal(&whole[..end]).contains("is damaged"), "cut at {end}"));
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let text = refusal(&bytes);
            assert!(text.contains("arbor.member is damaged") || (8..12).contains(&at), "byte {at}: {text}");
        }
        let mut newer = whole.clone();
        newer[8] = 2;
        assert!(refusal(&newer).ends_with("arbor.member was written by a newer release"));
    }
}
