//! Opening a log: where does it end, and is the end torn by a crash or damaged?
//!
//! A crash may lose any unsynced writes, so the last segments may hold a valid part, a hole, and valid records behind
//! the hole. Everything after the first bad place is dropped **unless something proves that the bad place had been
//! durable** (L3, L4): then acknowledged records are damaged and the log refuses to open with [`Error::Corrupt`].
//!
//! Steps, and what a crash between them leaves:
//! 1. Unfinished segment files are removed (again at the next open).
//! 2. The last segments (L3) are scanned; older ones are checked when they are read.
//! 3. Segments behind the end are removed from the newest on, then the last one is cut. A crash before the end of this
//!    step leaves a log that recovers to the same end, since what was cut proves nothing about it.
//! 4. Bytes that no claim (L4) covers are written once more, the last segment's length is set once more, then the scanned segments and the directory are synced: after a
//!    killed process they may be in memory only, and after a failed sync in that process they may look clean there
//!    without being on the medium. Only a new write makes the next sync carry or report them.

use std::path::Path;
use std::sync::Arc;

use arbor_disk::Disk;

use crate::format::{
    FIRST_EPOCH, Kind, POSITION_MAX, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, position_unchecked,
};
use crate::scanner::{Scanner, Step, Window};
use crate::segment::{self, Begin, Segment};
use crate::{Error, LogOptions, Result};

/// The last segments that are scanned: one that is durable, so that its first position is certain, two that may have
/// lost writes (L3), one created ahead (L2).
const SCANNED_SEGMENTS: usize = 4;

pub(crate) struct Recovered {
    /// Oldest first, never empty; the last one is appended to.
    pub segments: Vec<Arc<Segment>>,
    pub tail: Tail,
}

/// The place where the next record is appended.
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
        let next = options.first_position.0.clamp(1, POSITION_MAX);
        let begin = Begin { sequence: 1, floor: next - 1, epoch: FIRST_EPOCH, epoch_before: 0 };
        let segment = Segment::create(disk, dir, begin)?;
        let tail = Tail { next, previous: 0, marked: false };
        return Ok(Recovered { segments: vec![Arc::new(segment)], tail });
    }
    let scanned_from = segments.len().saturating_sub(SCANNED_SEGMENTS);
    for segment in segments.iter().take(scanned_from + 1) {
        find_first(segment)?;
    }
    let end = find_end(segments.get(scanned_from..).unwrap_or_default())?;
    let kept = scanned_from + end.kept;
    cut(disk, dir, &segments, kept, end.offset)?;
    segments.truncate(kept);
    for (index, segment) in segments.iter().enumerate().skip(scanned_from) {
        let behind = segments.get(index + 1).map_or(end.tail.next, |following| following.first());
        if end.claimed + 1 < behind {
            rewrite_from(segment, end.claimed + 1)?;
        }
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
            if before.header.floor >= segment.header.floor {
                return Err(segment.corrupt(0, "floor does not follow the segment before"));
            }
            if before.epoch() > segment.epoch() {
                return Err(segment.corrupt(0, "epoch before that of the segment before"));
            }
        }
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

/// Finds the first position. A damaged first record is reported when it is read.
fn find_first(segment: &Arc<Segment>) -> Result<()> {
    let mut scanner = Scanner::new(segment.clone(), SEGMENT_HEADER_BYTES as u64, None, None);
    if let Step::Record(header) = scanner.step()? {
        segment.set_first(header.position + u64::from(header.kind == Kind::Mark));
    }
    Ok(())
}

/// The end of the last valid record. Segments after it are empty or torn from their start.
struct End {
    /// Number of the scanned segments that are kept; at least one.
    kept: usize,
    /// End of the records in the last one that is kept.
    offset: u64,
    /// Last position that some record claims to have been durable.
    claimed: u64,
    tail: Tail,
}

/// Scans the given segments, of which there is at least one.
fn find_end(segments: &[Arc<Segment>]) -> Result<End> {
    const START: u64 = SEGMENT_HEADER_BYTES as u64;
    let (Some(head), mut entered) = (segments.first(), 1) else {
        unreachable!("I1: recovery scans at least one segment")
    };
    let tail = Tail { next: head.first(), previous: 0, marked: false };
    let mut end = End { kept: 1, offset: START, claimed: tail.next - 1, tail };
    let mut scanner = Scanner::new(head.clone(), START, Some(tail.next), None);
    let broken = loop {
        match scanner.step()? {
            Step::Record(header) => {
                let previous = scanner.previous().unwrap_or(0);
                let tail = Tail { next: header.position + 1, previous, marked: header.kind == Kind::Mark };
                let claimed = end.claimed.max(header.durable.unwrap_or(0));
                end = End { kept: entered, offset: scanner.offset(), claimed, tail };
            }
            Step::Bad(reason) => break Some(reason),
            Step::End => match segments.get(entered) {
                None => break None,
                Some(segment) => {
                    segment.set_first(end.tail.next);
                    scanner.enter(segment.clone());
                    entered += 1;
                }
            },
        }
    };
    if let Some(reason) = broken
        && was_durable(segments, entered - 1, scanner.offset(), end.tail.next)?
    {
        return Err(scanner.segment().corrupt(scanner.offset(), reason));
    }
    Ok(end)
}

/// Returns true if anything after a bad place proves that the record `position`, expected there, had been durable.
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

/// Searches every byte offset for a record header that claims `position` to be durable (L4). Its checksum is started
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

/// Removes everything after the end, durably.
fn cut(disk: &dyn Disk, dir: &Path, segments: &[Arc<Segment>], kept: usize, end: u64) -> Result<()> {
    let surplus = segments.get(kept..).unwrap_or_default();
    for segment in surplus.iter().rev() {
        disk.remove(segment.file.path())?;
        disk.sync_dir(dir)?;
    }
    if let Some(last) = segments.get(kept - 1) {
        // Also where the file has this length: a killed process may have shortened it, and the sync of that may have failed (step 4).
        last.file.set_len(end)?;
        last.set_end(end);
    }
    Ok(())
}

/// Writes the records from `position` on again, bytes unchanged (step 4).
fn rewrite_from(segment: &Segment, position: u64) -> Result<()> {
    let (mut offset, _) = segment.landmark_before(position);
    let mut piece = vec![0; REWRITE_BYTES];
    while offset < segment.end() {
        let length = (segment.end() - offset).min(REWRITE_BYTES as u64) as usize;
        let Some(bytes) = piece.get_mut(..length) else { break };
        segment.file.read_exact_at(bytes, offset)?;
        segment.file.write_at(bytes, offset)?;
        offset += length as u64;
    }
    Ok(())
}

const REWRITE_BYTES: usize = 256 << 10;
