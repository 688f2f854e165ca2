//! Opening a log: where does it end, and is the end torn by a crash or damaged?
//!
//! A crash may lose any unsynced writes, so the last segments may hold a valid part, a hole, and valid records behind
//! the hole. What stands behind the first bad place is dropped **unless something proves that the bad place had been
//! durable** (L3, L4): then acknowledged records are damaged and the log refuses to open with [`Error::Corrupt`].
//!
//! Steps, and what a crash between them leaves:
//! 1. Unfinished segment files are removed (again at the next open).
//! 2. The last segments (L3) are scanned; older ones are checked when they are read.
//! 3. Segments behind the end are removed from the newest on, then the last one is cut. A crash before the end of this
//!    step leaves a log that recovers to the same end, since what was cut proves nothing about it.
//! 4. The scanned segments and the folder are synced: after a killed process they may be in memory only.

use std::path::Path;
use std::sync::Arc;

use arbor_disk::Disk;

use crate::format::{Kind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, position_unchecked};
use crate::scanner::{Scanner, Step, Window};
use crate::segment::{self, Segment};
use crate::{Error, LogOptions, Result};

/// The last segments that are scanned: two that may have lost writes (L3) and one created for the future.
const SCANNED_SEGMENTS: usize = 3;

pub(crate) struct Recovered {
    /// Oldest first, never empty; the last one is appended to.
    pub segments: Vec<Arc<Segment>>,
    pub tail: Tail,
}

/// What the next record is appended to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// Position of the next record.
    pub next: u64,
    /// Header checksum of the last record.
    pub previous: u32,
    /// The last record is a mark.
    pub marked: bool,
}

pub(crate) fn recover(disk: &dyn Disk, dir: &Path, options: &LogOptions) -> Result<Recovered> {
    disk.create_dir_all(dir)?;
    let mut segments = open_segments(disk, dir)?;
    if segments.is_empty() {
        let next = options.first_position.0.max(1);
        let segment = Segment::create(disk, dir, 1, next)?;
        let tail = Tail { next, previous: 0, marked: false };
        return Ok(Recovered { segments: vec![Arc::new(segment)], tail });
    }
    let scanned_from = segments.len().saturating_sub(SCANNED_SEGMENTS);
    let end = find_end(segments.get(scanned_from..).unwrap_or_default())?;
    let kept = scanned_from + end.kept;
    cut(disk, dir, &segments, kept, end.offset)?;
    segments.truncate(kept);
    for segment in segments.iter().skip(scanned_from) {
        segment.file.sync_data()?;
    }
    disk.sync_dir(dir)?;
    Ok(Recovered { segments, tail: end.tail })
}

/// All segments, oldest first, with their headers checked.
fn open_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<Arc<Segment>>> {
    let mut sequences = Vec::new();
    for name in disk.list(dir)? {
        if segment::is_unfinished(&name) {
            disk.remove(&dir.join(&name))?;
        }
        sequences.extend(segment::sequence_in(&name));
    }
    sequences.sort_unstable();
    let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let segment = Segment::open(disk, dir, sequence)?;
        if let Some(before) = segments.last() {
            if before.sequence() + 1 != sequence {
                let segment = segment::path(dir, before.sequence() + 1);
                return Err(Error::Corrupt { segment, offset: 0, reason: "segment is missing" });
            }
            if before.first() >= segment.first() {
                return Err(segment.corrupt(0, "first position does not follow the segment before"));
            }
        }
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

/// Where the valid records end.
struct End {
    /// How many of the scanned segments are kept; at least one.
    kept: usize,
    /// End of the records in the last one that is kept.
    offset: u64,
    tail: Tail,
}

/// Scans the given segments, of which there is at least one.
fn find_end(segments: &[Arc<Segment>]) -> Result<End> {
    const START: u64 = SEGMENT_HEADER_BYTES as u64;
    let (Some(head), mut kept, mut marked) = (segments.first(), 1, false) else {
        unreachable!("I1: recovery scans at least one segment")
    };
    let mut next = head.first();
    let mut scanner = Scanner::new(head.clone(), START, Some(next), None);
    let broken = loop {
        match scanner.step()? {
            Step::Record(header) => {
                marked = header.kind == Kind::Mark;
                next = scanner.next_position().unwrap_or(u64::MAX);
            }
            Step::Bad(reason) => break Some(reason),
            Step::End => match segments.get(kept) {
                None => break None,
                Some(segment) if segment.first() != next => break Some("records are missing at the end"),
                Some(segment) => {
                    scanner.enter(segment.clone());
                    kept += 1;
                }
            },
        }
    };
    if let Some(reason) = broken
        && was_durable(segments, kept - 1, scanner.offset(), next)?
    {
        return Err(scanner.segment().corrupt(scanner.offset(), reason));
    }
    let previous = scanner.previous().unwrap_or(0);
    Ok(End { kept, offset: scanner.offset(), tail: Tail { next, previous, marked } })
}

/// Whether anything behind a bad place proves that the record `position`, expected there, had been durable.
fn was_durable(segments: &[Arc<Segment>], index: usize, offset: u64, position: u64) -> Result<bool> {
    let later = segments.get(index + 1..).unwrap_or_default();
    if later.iter().filter(|segment| !segment.is_empty()).count() >= 2 {
        return Ok(true); // L3
    }
    if let Some(segment) = segments.get(index)
        && holds_claim(segment, offset, position)?
    {
        return Ok(true);
    }
    for segment in later {
        if holds_claim(segment, SEGMENT_HEADER_BYTES as u64, position)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks at every byte offset for a record header that claims `position` to be durable (L4). Its checksum is started
/// from the segment's secret salt, so bytes inside a payload cannot pass for one.
fn holds_claim(segment: &Segment, from: u64, position: u64) -> Result<bool> {
    const PIECE_BYTES: u64 = 1 << 20;
    let (limit, mut offset, mut window) = (segment.end(), from, Window::default());
    while limit.saturating_sub(offset) >= RECORD_HEADER_BYTES as u64 {
        let length = (limit - offset).min(PIECE_BYTES);
        let Some(piece) = window.view(&*segment.file, offset, length as usize, limit)? else { break };
        if piece.windows(RECORD_HEADER_BYTES).any(|bytes| claims(bytes, segment.header.salt, position)) {
            return Ok(true);
        }
        offset += length - (RECORD_HEADER_BYTES as u64 - 1);
    }
    Ok(false)
}

fn claims(bytes: &[u8], salt: u32, position: u64) -> bool {
    let Some(bytes) = bytes.first_chunk() else { return false };
    if position_unchecked(bytes) < position {
        return false;
    }
    let header = RecordHeader::decode(bytes, salt);
    header.is_some_and(|(header, _)| header.durable.is_some_and(|durable| durable >= position))
}

/// Removes what stands behind the end, durably.
fn cut(disk: &dyn Disk, dir: &Path, segments: &[Arc<Segment>], kept: usize, end: u64) -> Result<()> {
    let surplus = segments.get(kept..).unwrap_or_default();
    for segment in surplus.iter().rev() {
        disk.remove(segment.file.path())?;
        disk.sync_dir(dir)?;
    }
    if let Some(last) = segments.get(kept - 1)
        && last.end() != end
    {
        last.file.set_len(end)?;
        last.set_end(end);
    }
    Ok(())
}
