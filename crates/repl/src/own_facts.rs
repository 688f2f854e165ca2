//! [`OwnFacts`], which a member keeps about itself in a file of its data directory. None of it is data of the set, so it is not in the log.
//!
//! The file is a BSON document `{ format, oplog, starts, checksum }`, replaced as a whole. The checksum is the CRC-32C of the document
//! without it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use parking_lot::Mutex;

use crate::coordinator::replace_file;

/// Name of the file in the data directory.
pub const OWN_FACTS_FILE: &str = "arbor.local";

const FORMAT: i32 = 1;

/// Starts that are kept.
const STARTS_MAX: usize = 100;

#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Size and retention of the oplog as a client has set them; empty: as the options say.
    pub oplog: DocBuf,
    /// One document for each start, the newest last.
    pub starts: Vec<DocBuf>,
}

/// The facts and their file. Shared by all threads.
pub struct OwnFacts {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    facts: Facts,
    /// The file has them.
    is_kept: bool,
}

impl OwnFacts {
    pub fn new(directory: &Path) -> OwnFacts {
        OwnFacts { path: directory.join(OWN_FACTS_FILE), known: Mutex::default() }
    }

    /// Reads the file. False: there is none yet.
    ///
    /// Errors: `InvalidData` for a damaged file, or one of a newer release; the facts are none then, and the next change replaces it.
    pub fn load(&self) -> io::Result<bool> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let facts = decode(&bytes)
            .map_err(|reason| io::Error::new(ErrorKind::InvalidData, format!("{} {reason}", self.path.display())))?;
        *self.known.lock() = Known { facts, is_kept: true };
        Ok(true)
    }

    /// Takes the place of what is known; the next change writes it.
    pub fn replace(&self, facts: Facts) {
        *self.known.lock() = Known { facts, is_kept: false };
    }

    /// Returns true if the file has what is known.
    pub fn is_kept(&self) -> bool {
        self.known.lock().is_kept
    }

    pub fn oplog(&self) -> DocBuf {
        self.known.lock().facts.oplog.clone()
    }

    pub fn starts(&self) -> Vec<DocBuf> {
        self.known.lock().facts.starts.clone()
    }

    pub fn set_oplog(&self, oplog: DocBuf) -> io::Result<()> {
        self.change(|facts| facts.oplog = oplog)
    }

    pub fn add_start(&self, start: DocBuf) -> io::Result<()> {
        self.change(|facts| facts.starts.push(start))
    }

    /// The change counts from now on, even if the file cannot be written.
    fn change(&self, change: impl FnOnce(&mut Facts)) -> io::Result<()> {
        let mut known = self.known.lock();
        change(&mut known.facts);
        let surplus = known.facts.starts.len().saturating_sub(STARTS_MAX);
        known.facts.starts.drain(..surplus);
        known.is_kept = false;
        replace_file(&self.path, encode(&known.facts).as_bytes())?;
        known.is_kept = true;
        Ok(())
    }
}

fn without_checksum(facts: &Facts) -> DocBuf {
    let starts: ArrayBuf = facts.starts.iter().collect();
    DocBuf::new().with("format", FORMAT).with("oplog", &facts.oplog).with("starts", &starts)
}

fn encode(facts: &Facts) -> DocBuf {
    let doc = without_checksum(facts);
    let checksum = i64::from(crc32c::crc32c(doc.as_bytes()));
    doc.with("checksum", checksum)
}

const DAMAGED: &str =
    "is damaged: the size of the oplog is that of the options again, and earlier starts are forgotten";
const NEWER: &str =
    "was written by a newer release: the size of the oplog is that of the options, and earlier starts are forgotten";

fn decode(bytes: &[u8]) -> Result<Facts, &'static str> {
    let doc = Doc::parse(bytes).map_err(|_| DAMAGED)?;
    if matches!(doc.get("format"), Some(ValueRef::Int32(format)) if format > FORMAT) {
        return Err(NEWER);
    }
    let facts = fields(doc).ok_or(DAMAGED)?;
    if encode(&facts).as_bytes() == bytes { Ok(facts) } else { Err(DAMAGED) }
}

fn fields(doc: Doc<'_>) -> Option<Facts> {
    let (Some(ValueRef::Document(oplog)), Some(ValueRef::Array(starts))) = (doc.get("oplog"), doc.get("starts")) else {
        return None;
    };
    let document = |value| match value {
        ValueRef::Document(doc) => Some(doc.to_buf()),
        _ => None,
    };
    Some(Facts { oplog: oplog.to_buf(), starts: starts.iter().map(document).collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(megabytes: f64) -> DocBuf {
        DocBuf::new().with("size", megabytes)
    }

    #[test]
    fn facts_are_there_after_a_restart_and_the_newest_starts_stay() {
        let dir = tempfile::tempdir().unwrap();
        let facts = OwnFacts::new(dir.path());
        assert!(!facts.load().unwrap() && !facts.is_kept());
        facts.replace(Facts { oplog: size(7.0), starts: Vec::new() });
        assert!(!facts.is_kept(), "the file does not have them");
        for n in 0..STARTS_MAX as i32 + 5 {
            facts.add_start(DocBuf::new().with("_id", n)).unwrap();
        }
        let again = OwnFacts::new(dir.path());
        assert!(again.load().unwrap() && again.is_kept());
        assert_eq!(again.oplog().as_bytes(), size(7.0).as_bytes());
        let starts = again.starts();
        assert_eq!(starts.len(), STARTS_MAX);
        assert_eq!(starts[0].as_bytes(), DocBuf::new().with("_id", 5).as_bytes());
    }

    #[test]
    fn a_damaged_or_newer_file_is_reported_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let facts = OwnFacts::new(dir.path());
        facts.add_start(DocBuf::new().with("_id", "first")).unwrap();
        let path = dir.path().join(OWN_FACTS_FILE);
        let whole = fs::read(&path).unwrap();
        let refusal = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            OwnFacts::new(dir.path()).load().unwrap_err().to_string()
        };
        (0..whole.len()).for_each(|end| assert!(refusal(&whole[..end]).contains("is damaged"), "cut at {end}"));
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let text = refusal(&bytes);
            assert!(text.contains("is damaged") || text.contains("newer release"), "byte {at}: {text}");
        }
        let newer = DocBuf::new().with("format", FORMAT + 1);
        assert!(refusal(newer.as_bytes()).contains("was written by a newer release"));
        let again = OwnFacts::new(dir.path());
        assert!(again.load().is_err());
        again.add_start(DocBuf::new().with("_id", "second")).unwrap();
        assert!(OwnFacts::new(dir.path()).load().unwrap());
    }

    #[test]
    fn a_change_that_is_not_written_counts_and_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let facts = OwnFacts::new(&dir.path().join("missing"));
        assert!(facts.set_oplog(size(8.0)).is_err());
        assert_eq!(facts.oplog().as_bytes(), size(8.0).as_bytes());
        assert!(!facts.is_kept());
    }
}
