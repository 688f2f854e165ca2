//! The coordinator of a set with one member: a file in its data directory.
//!
//! The file is a BSON document, written under another name, synced and renamed, so the replacement is atomic.
//!
//! | format | document |
//! |---|---|
//! | 1 | `{ format, revision, epoch, config, checksum }`: a set of one whose data has no identity yet |
//! | 2 | `{ format, revision, agreement, checksum }`, see `agreement` |
//!
//! `revision` is the version. The checksum is the CRC-32C of the document without it; releases up to 2026-11-22 wrote none.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use arbor_bson::{Doc, DocBuf, ValueRef};
use parking_lot::Mutex;

use super::{Coordinator, Replaced};
use crate::agreement::{Agreement, Epoch, Version, unsigned};

pub struct LocalFile {
    path: PathBuf,
    writing: Mutex<()>,
}

const FORMAT_OF_ONE: i32 = 1;
const FORMAT: i32 = 2;

impl LocalFile {
    pub fn new(path: PathBuf) -> LocalFile {
        LocalFile { path, writing: Mutex::new(()) }
    }
}

impl LocalFile {
    /// Stores an agreement whose authority is elsewhere, with its version there.
    pub fn keep(&self, version: Version, agreement: &Agreement) -> io::Result<()> {
        let _writing = self.writing.lock();
        self.write(version, agreement).map(drop)
    }

    fn write(&self, version: Version, agreement: &Agreement) -> io::Result<Replaced> {
        match replace_file(&self.path, encode(version, agreement).as_bytes())? {
            true => Ok(Replaced::Done(version)),
            false => Ok(Replaced::Unknown),
        }
    }
}

/// Replaces a file as a whole. False: the new one is visible, and after a crash either may be there.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    Ok(File::open(directory.unwrap_or(".".as_ref())).and_then(|directory| directory.sync_all()).is_ok())
}

impl Coordinator for LocalFile {
    fn read(&self) -> io::Result<Option<(Version, Agreement)>> {
        match fs::read(&self.path) {
            Ok(bytes) => decode(&bytes).map(Some).map_err(|reason| {
                let text = format!("{} {reason}", self.path.display());
                io::Error::new(ErrorKind::InvalidData, text)
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, expected: Option<Version>, next: &Agreement) -> io::Result<Replaced> {
        let _writing = self.writing.lock();
        let current = self.read()?.map(|(version, _)| version);
        if current != expected {
            return Ok(Replaced::Stale);
        }
        self.write(Version(current.map_or(1, |version| version.0 + 1)), next)
    }

    fn changed(&self, seen: Option<Version>) -> bool {
        self.read().is_ok_and(|read| read.map(|(version, _)| version) > seen)
    }
}

fn encode(version: Version, agreement: &Agreement) -> DocBuf {
    let doc = without_checksum(version, agreement);
    let checksum = checksum_of(&doc);
    doc.with("checksum", checksum)
}

fn without_checksum(version: Version, agreement: &Agreement) -> DocBuf {
    let revision = version.0 as i64;
    let of_one = agreement.in_sync.is_empty() && agreement.voters.is_empty() && agreement.primary.is_none();
    if of_one {
        let doc = DocBuf::new().with("format", FORMAT_OF_ONE).with("revision", revision);
        return doc.with("epoch", agreement.epoch.0 as i64).with("config", Doc::trusted(&agreement.config));
    }
    DocBuf::new().with("format", FORMAT).with("revision", revision).with("agreement", &agreement.to_doc())
}

fn checksum_of(doc: &DocBuf) -> i64 {
    i64::from(crc32c::crc32c(doc.as_bytes()))
}

const DAMAGED: &str = "is damaged: restore a copy of it, or remove it and initiate the set again, which keeps the data";

fn decode(bytes: &[u8]) -> Result<(Version, Agreement), &'static str> {
    let doc = Doc::parse(bytes).map_err(|_| DAMAGED)?;
    if matches!(doc.get("format"), Some(ValueRef::Int32(format)) if format > FORMAT) {
        return Err("was written by a newer release");
    }
    let (version, agreement) = fields(doc).ok_or(DAMAGED)?;
    let old = without_checksum(version, &agreement);
    let is_sound = bytes == encode(version, &agreement).as_bytes() || bytes == old.as_bytes();
    if is_sound { Ok((version, agreement)) } else { Err(DAMAGED) }
}

fn fields(doc: Doc<'_>) -> Option<(Version, Agreement)> {
    let version = Version(unsigned(doc.get("revision")?)?);
    match doc.get("format")? {
        ValueRef::Int32(FORMAT_OF_ONE) => {
            let ValueRef::Document(config) = doc.get("config")? else { return None };
            Some((version, Agreement::of_one(Epoch(unsigned(doc.get("epoch")?)?), config)))
        }
        ValueRef::Int32(FORMAT) => match doc.get("agreement")? {
            ValueRef::Document(agreement) => Some((version, Agreement::from_doc(agreement)?)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::contract;

    fn of_one() -> Agreement {
        Agreement::of_one(Epoch(1), DocBuf::new().with("_id", "rs").as_doc())
    }

    #[test]
    fn passes_the_contract() {
        let dir = tempfile::tempdir().unwrap();
        let count = std::sync::atomic::AtomicU64::new(0);
        contract::run(&|| {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Box::new(LocalFile::new(dir.path().join(format!("{number}.replset"))))
        });
    }

    #[test]
    fn the_file_keeps_what_follows_and_refuses_what_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = LocalFile::new(dir.path().join("arbor.replset"));
        assert_eq!(file.replace(None, &of_one()).unwrap(), Replaced::Done(Version(1)));
        assert_eq!(file.replace(None, &of_one()).unwrap(), Replaced::Stale);
        assert_eq!(file.replace(Some(Version(1)), &contract::agreement(3)).unwrap(), Replaced::Done(Version(2)));
        let again = LocalFile::new(dir.path().join("arbor.replset"));
        assert_eq!(again.read().unwrap(), Some((Version(2), contract::agreement(3))));
    }

    #[test]
    fn a_failed_replacement_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = LocalFile::new(dir.path().join("arbor.replset"));
        file.replace(None, &of_one()).unwrap();
        fs::create_dir(dir.path().join("arbor.replset.new")).unwrap();
        assert!(file.replace(Some(Version(1)), &contract::agreement(3)).is_err());
        assert_eq!(file.read().unwrap(), Some((Version(1), of_one())));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("arbor.replset");
        for agreement in [of_one(), contract::agreement(3)] {
            let whole = encode(Version(1), &agreement).into_bytes();
            for cut in 0..whole.len() {
                fs::write(&path, &whole[..cut]).unwrap();
                assert!(LocalFile::new(path.clone()).read().is_err(), "cut at {cut}");
            }
            for at in 0..whole.len() {
                for flip in [0x01, 0x20, 0x80] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= flip;
                    fs::write(&path, bytes).unwrap();
                    assert!(LocalFile::new(path.clone()).read().is_err(), "flipped at {at}");
                }
            }
        }
        fs::write(&path, DocBuf::new().with("format", 3i32).as_bytes()).unwrap();
        let text = LocalFile::new(path).read().unwrap_err().to_string();
        assert!(text.ends_with("arbor.replset was written by a newer release"), "{text}");
    }

    /// The bytes that releases up to 2026-11-22 wrote for a set of one, and those with a checksum after them.
    #[test]
    fn the_file_of_a_set_of_one_is_read_and_written_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("arbor.replset");
        let config = DocBuf::new().with("_id", "rs");
        let old = DocBuf::new().with("format", 1i32).with("revision", 7i64).with("epoch", 1i64).with("config", &config);
        fs::write(&path, old.as_bytes()).unwrap();
        let file = LocalFile::new(path.clone());
        assert_eq!(file.read().unwrap(), Some((Version(7), of_one())));
        assert_eq!(file.replace(Some(Version(7)), &of_one()).unwrap(), Replaced::Done(Version(8)));
        let next =
            DocBuf::new().with("format", 1i32).with("revision", 8i64).with("epoch", 1i64).with("config", &config);
        let checksum = checksum_of(&next);
        assert_eq!(fs::read(&path).unwrap(), next.with("checksum", checksum).as_bytes());
    }
}
