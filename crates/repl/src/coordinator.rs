//! The state that the members of a set agree on, and its storage.
//!
//! A set of one member needs no agreement: a file serves as the coordinator. All other code uses the trait.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use arbor_bson::{Doc, DocBuf, ValueRef};
use parking_lot::Mutex;

/// The newest agreement.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Election term (MongoDB's `term`).
    pub revision: i64,
    /// The configuration, as `replSetGetConfig` returns it.
    pub epoch: i64,
    /// The configuration, as `replSetGetConfig` answers it.
    pub config: DocBuf,
}

pub trait Coordinator: Send + Sync {
    /// The newest agreement; `None`: the set was never initiated.
    fn read(&self) -> io::Result<Option<Agreement>>;

    /// Replaces the agreement with `next` if the revision of `next` is one greater (1 if there is none). `Ok(false)`: a concurrent
    /// replacement was first. `Ok(true)`: it is durable.
    fn replace(&self, next: &Agreement) -> io::Result<bool>;
}

/// One file in the data directory: the coordinator of a set with one member.
///
/// The file is a BSON document `{ format, revision, epoch, config, checksum }`. It is written under another name, synced and
/// renamed, so the replacement is atomic. The checksum is the CRC-32C of the document without it; releases up to 2026-11-22
/// wrote none.
pub struct LocalFile {
    path: PathBuf,
    writing: Mutex<()>,
}

const FORMAT: i32 = 1;

impl LocalFile {
    pub fn new(path: PathBuf) -> LocalFile {
        LocalFile { path, writing: Mutex::new(()) }
    }
}

impl Coordinator for LocalFile {
    fn read(&self) -> io::Result<Option<Agreement>> {
        match fs::read(&self.path) {
            Ok(bytes) => decode(&bytes).map(Some).map_err(|reason| {
                let text = format!("{} {reason}", self.path.display());
                io::Error::new(ErrorKind::InvalidData, text)
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, next: &Agreement) -> io::Result<bool> {
        let _writing = self.writing.lock();
        let current = self.read()?.map_or(0, |agreement| agreement.revision);
        if next.revision != current + 1 {
            return Ok(false);
        }
        let temporary = self.path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(encode(next).as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        File::open(directory.unwrap_or(".".as_ref()))?.sync_all()?;
        Ok(true)
    }
}

fn encode(agreement: &Agreement) -> DocBuf {
    let doc = without_checksum(agreement.revision, agreement.epoch, agreement.config.as_doc());
    let checksum = checksum_of(&doc);
    doc.with("checksum", checksum)
}

fn without_checksum(revision: i64, epoch: i64, config: Doc<'_>) -> DocBuf {
    DocBuf::new().with("format", FORMAT).with("revision", revision).with("epoch", epoch).with("config", config)
}

fn checksum_of(doc: &DocBuf) -> i64 {
    i64::from(crc32c::crc32c(doc.as_bytes()))
}

const DAMAGED: &str = "is damaged: restore a copy of it, or remove it and initiate the set again, which keeps the data";

fn decode(bytes: &[u8]) -> Result<Agreement, &'static str> {
    let doc = Doc::parse(bytes).map_err(|_| DAMAGED)?;
    let (revision, epoch, config) = match (doc.get("format"), doc.get("revision"), doc.get("epoch"), doc.get("config"))
    {
        (
            Some(ValueRef::Int32(FORMAT)),
            Some(ValueRef::Int64(revision)),
            Some(ValueRef::Int64(epoch)),
            Some(ValueRef::Document(config)),
        ) => (revision, epoch, config),
        (Some(ValueRef::Int32(format)), ..) if format > FORMAT => return Err("was written by a newer release"),
        _ => return Err(DAMAGED),
    };
    let agreement = Agreement { revision, epoch, config: config.to_buf() };
    let old = without_checksum(revision, epoch, config);
    let is_sound = bytes == encode(&agreement).as_bytes() || bytes == old.as_bytes();
    if is_sound { Ok(agreement) } else { Err(DAMAGED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(revision: i64) -> Agreement {
        Agreement { revision, epoch: 1, config: DocBuf::new().with("_id", "rs") }
    }

    #[test]
    fn the_file_keeps_what_follows_and_refuses_what_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = LocalFile::new(dir.path().join("arbor.replset"));
        assert!(file.read().unwrap().is_none());
        assert!(!file.replace(&agreement(2)).unwrap());
        assert!(file.replace(&agreement(1)).unwrap());
        assert!(!file.replace(&agreement(1)).unwrap(), "somebody else was first");
        assert!(file.replace(&agreement(2)).unwrap());
        let again = LocalFile::new(dir.path().join("arbor.replset"));
        let read = again.read().unwrap().unwrap();
        assert_eq!((read.revision, read.epoch, read.config.as_bytes()), (2, 1, agreement(2).config.as_bytes()));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("arbor.replset");
        let whole = encode(&agreement(1)).into_bytes();
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
        fs::write(&path, DocBuf::new().with("format", 2i32).as_bytes()).unwrap();
        let text = LocalFile::new(path).read().unwrap_err().to_string();
        assert!(text.ends_with("arbor.replset was written by a newer release"), "{text}");
    }

    #[test]
    fn a_file_without_a_checksum_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("arbor.replset");
        let old = agreement(7);
        fs::write(&path, without_checksum(7, 1, old.config.as_doc()).as_bytes()).unwrap();
        assert_eq!(LocalFile::new(path).read().unwrap().unwrap().revision, 7);
    }
}
