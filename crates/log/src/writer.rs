//! Appending: one write per group, a new segment when the last one is full.

use std::path::PathBuf;
use std::sync::Arc;

use arbor_disk::Disk;

use crate::error::Failure;
use crate::format::{Kind, PAYLOAD_BYTES_MAX, POSITION_MAX, RECORD_HEADER_BYTES, RecordHeader};
use crate::recovery::Tail;
use crate::segment::{Begin, Segment};
use crate::{Error, Result};

/// The end of the log. Guarded by the writer mutex of `Log`.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    pub segment: Arc<Segment>,
    /// Segments before the current one that hold bytes no sync has covered (at most one, L3).
    unsynced: Vec<Arc<Segment>>,
    tail: Tail,
    /// Reused for every group.
    buffer: Vec<u8>,
}

const BUFFER_BYTES_KEPT: usize = 4 << 20;

impl Writer {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        segment_bytes: u64,
        segment: Arc<Segment>,
        tail: Tail,
    ) -> Writer {
        Writer { disk, dir, segment_bytes, segment, unsynced: Vec::new(), tail, buffer: Vec::new() }
    }

    pub(crate) fn next(&self) -> u64 {
        self.tail.next
    }

    /// Refuses what cannot be appended, before anything is changed.
    pub(crate) fn check(&self, payloads: &[&[u8]]) -> Result<()> {
        if let Some(large) = payloads.iter().find(|payload| payload.len() > PAYLOAD_BYTES_MAX) {
            return Err(Error::TooLarge { length: large.len(), max: PAYLOAD_BYTES_MAX });
        }
        if POSITION_MAX - (self.tail.next - 1) < payloads.len() as u64 {
            return Err(Error::OutOfSpace { context: "all positions are used up".into() });
        }
        Ok(())
    }

    /// Returns true if the next group goes to a new segment.
    pub(crate) fn is_full(&self) -> bool {
        self.segment.end() >= self.segment_bytes && self.segment.first() < self.tail.next
    }

    /// Makes the current segment ready to be followed by another one. Syncs what L3 requires, which is something only when
    /// syncing lags a whole segment behind.
    pub(crate) fn finish_segment(&mut self) -> Result<(), Failure> {
        for segment in &self.unsynced {
            segment.file.sync_data().map_err(Failure::poisoned)?;
        }
        self.unsynced.clear();
        // Zeros behind the last record would be a torn end, in a segment that others follow.
        Ok(self.segment.file.release_reserved()?)
    }

    /// Continues in the prepared segment, or else in one created here. Requires: the current one is finished.
    pub(crate) fn roll(&mut self, prepared: Option<Segment>) -> Result<(), Failure> {
        let segment = match prepared {
            Some(segment) => segment,
            None => Segment::create(&*self.disk, &self.dir, self.following(self.segment.epoch()))?,
        };
        assert_eq!(segment.sequence(), self.segment.sequence() + 1, "the prepared segment follows the current one");
        assert!(segment.epoch() >= self.segment.epoch(), "L7: epochs do not fall");
        segment.set_first(self.tail.next);
        let full = std::mem::replace(&mut self.segment, Arc::new(segment));
        self.unsynced.push(full);
        assert_eq!(self.unsynced.len(), 1, "L3: only the last two segments may have lost writes in a crash");
        Ok(())
    }

    /// The beginning of the segment after the current one, which holds records.
    pub(crate) fn following(&self, epoch: u64) -> Begin {
        let current = &self.segment;
        Begin { sequence: current.sequence() + 1, floor: self.tail.next - 1, epoch, epoch_before: current.epoch() }
    }

    /// Creates a segment of another epoch in the place of the current one, which holds no record.
    pub(crate) fn replace(&mut self, epoch: u64) -> Result<(), Failure> {
        assert!(self.segment.is_empty(), "a segment with records is not replaced");
        let (sequence, epoch_before) = (self.segment.sequence(), self.segment.header.epoch_before);
        let begin = Begin { sequence, floor: self.tail.next - 1, epoch, epoch_before };
        self.segment = Arc::new(Segment::create(&*self.disk, &self.dir, begin)?);
        Ok(())
    }

    /// Continues at another place: after a cut, or in a log that was reset.
    pub(crate) fn continue_at(&mut self, segment: Arc<Segment>, tail: Tail) {
        self.unsynced.retain(|unsynced| unsynced.sequence() < segment.sequence());
        (self.segment, self.tail) = (segment, tail);
    }

    /// Writes one data record per payload. `durable` is a position known durable (L4). Readers see nothing before the
    /// caller publishes the returned end.
    pub(crate) fn write(&mut self, payloads: &[&[u8]], durable: u64) -> Result<u64, Failure> {
        let (mut tail, start) = (self.tail, self.segment.end());
        let bytes: usize = payloads.iter().map(|payload| payload.len() + RECORD_HEADER_BYTES).sum();
        self.buffer.clear();
        self.buffer.reserve(bytes);
        // Holds even when the write fails: the next try begins at the same place with the same position.
        self.segment.note(tail.next, start);
        for payload in payloads {
            let header = RecordHeader::new(Kind::Data, tail.next, durable, tail.previous, payload);
            tail.previous = header.encode(self.segment.header.salt, &mut self.buffer);
            tail.next += 1;
            self.buffer.extend_from_slice(payload);
        }
        tail.marked = false;
        assert_eq!(tail.next, self.tail.next + payloads.len() as u64, "positions are consecutive");
        assert_eq!(self.buffer.len(), bytes, "records take what their headers say");
        assert!(durable < tail.next, "position {durable} is durable before it was written");
        self.write_buffer(start)?;
        self.tail = tail;
        Ok(start + bytes as u64)
    }

    /// Writes a mark, unless the log already ends with one or there is nothing to mark.
    pub(crate) fn write_mark(&mut self, durable: u64) -> Result<u64, Failure> {
        let start = self.segment.end();
        if self.tail.marked || self.segment.is_empty() {
            return Ok(start);
        }
        let header = RecordHeader::new(Kind::Mark, self.tail.next - 1, durable, self.tail.previous, &[]);
        self.buffer.clear();
        let previous = header.encode(self.segment.header.salt, &mut self.buffer);
        self.write_buffer(start)?;
        self.tail = Tail { previous, marked: true, ..self.tail };
        Ok(start + RECORD_HEADER_BYTES as u64)
    }

    /// One write; a failed one is rolled back.
    fn write_buffer(&mut self, start: u64) -> Result<(), Failure> {
        let written = self.segment.file.write_at(&self.buffer, start);
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        let Err(error) = written else { return Ok(()) };
        match self.roll_back(start) {
            Ok(()) => Err(error.into()),
            Err(second) => Err(Failure::Poisoned(format!("{error}; rolling it back: {second}"))),
        }
    }

    /// Truncates what a failed write left, durably: after a crash it must not be found in the place of what is written
    /// there next, which would fit its position and its chain as well.
    fn roll_back(&self, end: u64) -> arbor_disk::Result<()> {
        let file = &self.segment.file;
        if file.len()? == end {
            return Ok(());
        }
        file.set_len(end)?;
        file.sync_data()
    }

    /// The segments that a sync must cover now, in order, and the last position that it then makes durable.
    pub(crate) fn to_sync(&self) -> (Vec<Arc<Segment>>, u64) {
        let mut segments = self.unsynced.clone();
        segments.push(self.segment.clone());
        (segments, self.tail.next - 1)
    }

    /// Segments before `sequence` were covered by a sync that began when `sequence` was the current one.
    pub(crate) fn synced(&mut self, sequence: u64) {
        self.unsynced.retain(|segment| segment.sequence() >= sequence);
    }
}
