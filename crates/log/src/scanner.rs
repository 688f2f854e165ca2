//! Sequential reading of one segment in large pieces.

use std::sync::Arc;

use arbor_disk::File;

use crate::Result;
use crate::format::{Kind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES};
use crate::segment::Segment;

/// Reads records of one segment in order. One per thread; holds one buffer, no allocation per record.
#[derive(Debug)]
pub(crate) struct Scanner {
    segment: Arc<Segment>,
    offset: u64,
    /// Length of the last record's payload, which ends at `offset`.
    payload_bytes: usize,
    window: Window,
    /// Header checksum of the record before; `None` when the scan began in the middle.
    previous: Option<u32>,
    /// Position of the next data record; `None` like above.
    next: Option<u64>,
}

pub(crate) enum Step {
    /// Its payload is `Scanner::payload` until the next step.
    Record(RecordHeader),
    /// The scan has reached the end of the segment.
    End,
    /// The bytes at the scanner's offset are not the next record.
    Bad(&'static str),
}

impl Scanner {
    pub(crate) fn new(segment: Arc<Segment>, offset: u64, next: Option<u64>, previous: Option<u32>) -> Scanner {
        Scanner { segment, offset, payload_bytes: 0, window: Window::default(), previous, next }
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn previous(&self) -> Option<u32> {
        self.previous
    }

    /// Continues in the following segment with the same expectations (L1 spans segments) and the same buffer.
    pub(crate) fn enter(&mut self, segment: Arc<Segment>) {
        self.segment = segment;
        self.offset = SEGMENT_HEADER_BYTES as u64;
        self.window.clear();
    }

    /// Payload of the record that the last step answered.
    pub(crate) fn payload(&self) -> &[u8] {
        let start = self.offset.saturating_sub(self.payload_bytes as u64);
        self.window.held(start, self.payload_bytes).unwrap_or_default()
    }

    /// The next record, checked against L1. After `Bad` the scanner stays where it is.
    pub(crate) fn step(&mut self) -> Result<Step> {
        let limit = self.segment.end();
        if self.offset >= limit {
            return Ok(Step::End);
        }
        let file = &*self.segment.file;
        let Some(bytes) = self.window.view(file, self.offset, RECORD_HEADER_BYTES, limit)? else {
            return Ok(Step::Bad("record header cut off"));
        };
        let Some((bytes, _)) = bytes.split_first_chunk() else { return Ok(Step::Bad("record header cut off")) };
        let Some((header, checksum)) = RecordHeader::decode(bytes, self.segment.header.salt) else {
            return Ok(Step::Bad("record header checksum"));
        };
        let begins = header.position + u64::from(header.kind == Kind::Mark);
        if let Some(reason) = self.out_of_sequence(&header, begins) {
            return Ok(Step::Bad(reason));
        }
        let payload_at = self.offset + RECORD_HEADER_BYTES as u64;
        let Some(payload) = self.window.view(file, payload_at, header.length, limit)? else {
            return Ok(Step::Bad("record cut off"));
        };
        if crc32c::crc32c(payload) != header.payload_checksum {
            return Ok(Step::Bad("payload checksum"));
        }
        self.segment.note(begins, self.offset);
        self.offset = payload_at + header.length as u64;
        self.payload_bytes = header.length;
        self.previous = Some(checksum);
        self.next = Some(header.position + 1);
        Ok(Step::Record(header))
    }

    /// `begins`: position of the first data record at or behind this one.
    fn out_of_sequence(&self, header: &RecordHeader, begins: u64) -> Option<&'static str> {
        if begins < self.segment.first() {
            return Some("position outside the segment");
        }
        if self.next.is_some_and(|next| next != begins) {
            return Some("position out of sequence");
        }
        if self.previous.is_some_and(|previous| previous != header.previous) {
            return Some("chained to another record");
        }
        None
    }
}

const PIECE_BYTES_MIN: usize = 64 << 10;
const PIECE_BYTES_MAX: usize = 1 << 20;

/// A piece of a file in memory that moves forward. Pieces grow while reading continues.
#[derive(Debug, Default)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    start: u64,
    piece_bytes: usize,
}

impl Window {
    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
    }

    /// The bytes `offset .. offset + length`, or `None` when they reach beyond `limit`.
    pub(crate) fn view(&mut self, file: &dyn File, offset: u64, length: usize, limit: u64) -> Result<Option<&[u8]>> {
        if offset.checked_add(length as u64).is_none_or(|end| end > limit) {
            return Ok(None);
        }
        if self.held(offset, length).is_none() {
            self.fill(file, offset, length, limit)?;
        }
        Ok(self.held(offset, length))
    }

    fn held(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.buffer.get(from..from.checked_add(length)?)
    }

    /// Moves the start to `offset` and reads on from what is held already.
    fn fill(&mut self, file: &dyn File, offset: u64, length: usize, limit: u64) -> Result<()> {
        let skip = offset.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        match skip.filter(|skip| *skip <= self.buffer.len()) {
            Some(skip) => drop(self.buffer.drain(..skip)),
            None => self.buffer.clear(),
        }
        self.start = offset;
        self.piece_bytes = (self.piece_bytes * 2).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        let held = self.buffer.len();
        if self.buffer.capacity() > 4 * PIECE_BYTES_MAX && length <= PIECE_BYTES_MAX {
            self.buffer.shrink_to(PIECE_BYTES_MAX);
        }
        let requested = (length.max(self.piece_bytes) as u64).min(limit - offset) as usize;
        self.buffer.resize(requested.max(held), 0);
        let got = file.read_at(self.buffer.get_mut(held..).unwrap_or_default(), offset + held as u64)?;
        self.buffer.truncate(held + got);
        Ok(())
    }
}
