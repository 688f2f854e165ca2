//! One open segment file.
//!
//! Segments are reserved ahead in small steps (`Disk::open_appended`), so zeros may follow the records of the last one after a crash.
//! Rejected for now: using trimmed segments again. PERF: a 4 KB write and fdatasync took 243 us (median of 1,000) at the end of a growing file, 190 us in
//! reserved space, 122 us over bytes written before (ext4 on a virtual disk, 2026-11-21). But then old records may follow the new ones, and
//! writing a part of a page that is not in memory reads it first.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::*};

use arbor_disk::{Disk, File, OpenMode};
use parking_lot::Mutex;

use crate::error::Failure;
use crate::format::{HeaderFault, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Error, Result};

/// Shared by the writer, the syncing leader and readers; closed when the last of them drops it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub file: Box<dyn File>,
    pub header: SegmentHeader,
    /// Position of the first record; one behind the floor as long as it is not known better.
    first: AtomicU64,
    /// End of the valid records. Readers read up to here; only the writer moves it.
    end: AtomicU64,
    landmarks: Mutex<Vec<Landmark>>,
}

/// The beginning of a segment, apart from its salt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    pub sequence: u64,
    pub floor: u64,
    pub epoch: u64,
    pub epoch_before: u64,
}

/// The start of some record, so that a reader need not start at the head of the segment.
#[derive(Clone, Copy, Debug)]
struct Landmark {
    position: u64,
    offset: u64,
}

const LANDMARK_DISTANCE_BYTES: u64 = 256 << 10;

impl Segment {
    /// Creates a segment whose header and name are durable (L2), in the place of one with this name. An interrupted try leaves an unfinished file, which
    /// is not used again: a sync that failed on it says nothing about its pages (disk's D2).
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, begin: Begin) -> Result<Segment, Failure> {
        let Begin { sequence, floor, epoch, epoch_before } = begin;
        let header = SegmentHeader { salt: random_salt(), sequence, floor, epoch, epoch_before };
        let path = path(dir, sequence);
        let unfinished = path.with_extension(UNFINISHED);
        if disk.exists(&unfinished)? {
            disk.remove(&unfinished)?;
        }
        let file = disk.open(&unfinished, OpenMode::CreateNew)?;
        let encoded = header.encode();
        let read = encoded.first_chunk().map(SegmentHeader::decode);
        assert!(matches!(read, Some(Ok(read)) if read == header), "a header reads as it was written");
        file.write_at(&encoded, 0)?;
        file.sync_data()?;
        disk.rename(&unfinished, &path)?;
        // From here on the file has its final name: without a handle of it the caller would continue as if it did not exist,
        // and append to the one that it replaced.
        disk.sync_dir(dir).map_err(Failure::poisoned)?;
        let file = disk.open_appended(&path, OpenMode::ReadWrite).map_err(Failure::poisoned)?;
        Ok(Segment::new(file, header, SEGMENT_HEADER_BYTES as u64))
    }

    /// Opens an existing segment; `end` is the length of the file until recovery says better.
    pub(crate) fn open(disk: &dyn Disk, dir: &Path, sequence: u64) -> Result<Segment> {
        let path = path(dir, sequence);
        let file = disk.open_appended(&path, OpenMode::ReadWrite)?;
        let len = file.len()?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let corrupt = |reason| Error::Corrupt { segment: path.clone(), offset: 0, reason };
        if file.read_at(&mut bytes, 0)? < SEGMENT_HEADER_BYTES {
            return Err(corrupt("short segment header"));
        }
        let header = SegmentHeader::decode(&bytes).map_err(|fault| match fault {
            HeaderFault::Invalid(reason) => corrupt(reason),
            HeaderFault::Newer(version) => Error::NewerVersion { segment: path.clone(), version },
        })?;
        if header.sequence != sequence {
            return Err(corrupt("segment header names another sequence number"));
        }
        Ok(Segment::new(file, header, len))
    }

    fn new(file: Box<dyn File>, header: SegmentHeader, end: u64) -> Segment {
        Segment { file, first: (header.floor + 1).into(), header, end: end.into(), landmarks: Mutex::default() }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.header.sequence
    }

    pub(crate) fn first(&self) -> u64 {
        self.first.load(Acquire)
    }

    pub(crate) fn set_first(&self, position: u64) {
        self.first.store(position, Release);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.header.epoch
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Acquire)
    }

    pub(crate) fn set_end(&self, end: u64) {
        assert!(end >= SEGMENT_HEADER_BYTES as u64, "a segment of {end} bytes has no header");
        self.end.store(end, Release);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end() <= SEGMENT_HEADER_BYTES as u64
    }

    pub(crate) fn corrupt(&self, offset: u64, reason: &'static str) -> Error {
        Error::Corrupt { segment: self.file.path().to_owned(), offset, reason }
    }

    /// Remembers the start of a record if it is far enough after the last remembered one.
    pub(crate) fn note(&self, position: u64, offset: u64) {
        let mut landmarks = self.landmarks.lock();
        let last = landmarks.last().map_or(SEGMENT_HEADER_BYTES as u64, |landmark| landmark.offset);
        if offset >= last + LANDMARK_DISTANCE_BYTES {
            let rises = landmarks.last().is_none_or(|last| last.position <= position);
            debug_assert!(rises, "L1: position {position} at {offset} comes after a later one");
            landmarks.push(Landmark { position, offset });
        }
    }

    /// Forgets the starts of records from `offset` on, which are cut off.
    pub(crate) fn forget_from(&self, offset: u64) {
        self.landmarks.lock().retain(|landmark| landmark.offset < offset);
    }

    /// Offset and position of a record at or before the record with this position.
    pub(crate) fn landmark_before(&self, position: u64) -> (u64, u64) {
        let landmarks = self.landmarks.lock();
        let behind = landmarks.partition_point(|landmark| landmark.position <= position);
        let nearest = behind.checked_sub(1).and_then(|at| landmarks.get(at));
        nearest.map_or((SEGMENT_HEADER_BYTES as u64, self.first()), |landmark| (landmark.offset, landmark.position))
    }
}

const FINISHED: &str = "log";
const UNFINISHED: &str = "new";

pub(crate) fn path(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("{sequence:012}.{FINISHED}"))
}

/// The sequence number in a file name; `None` when it is not the name of a segment.
pub(crate) fn sequence_in(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(FINISHED)?.strip_suffix('.')?;
    let plain = digits.len() >= 12 && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

/// Returns true if the file is left over from an interrupted `Segment::create`.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(UNFINISHED).and_then(|stem| stem.strip_suffix('.')).is_some_and(|stem| stem.len() >= 12)
}

fn random_salt() -> u32 {
    RandomState::new().hash_one(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_are_distinguished_from_other_files() {
        let check = |name, expect| assert_eq!(sequence_in(name), expect, "{name}");
        check("000000000001.log", Some(1));
        check("1234567890123.log", Some(1_234_567_890_123));
        check("1.log", None);
        check("000000000001.new", None);
        check("+00000000001.log", None);
        check("mongod.log", None);
        assert_eq!(path(Path::new("/d"), 5), Path::new("/d/000000000005.log"));
        assert!(is_unfinished("000000000001.new"));
        assert!(!is_unfinished("000000000001.log"));
    }
}
