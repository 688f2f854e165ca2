//! Changes that a member of a set makes to the end of its log: new epochs, cuts of what the set does not have, a new beginning.
//!
//! | step | what a crash after it leaves |
//! |---|---|
//! | `begin_epoch`: a segment is created | the epoch, if a record of it is durable; else recovery removes the empty segment |
//! | `cut_behind`: segments are removed from the newest on, then the last one is cut and synced, or replaced by an empty one if no record is left | an end between the cut and the former end |
//! | `reset`: all segments are removed from the newest on, then one is created | a first part of the former log, or a log that begins at `LogOptions::first_position` |
//!
//! Locks: trimming, the leadership of syncs, the writer, the prepared segment, in this order. So no sync runs meanwhile, and none
//! claims afterwards what was cut off.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use arbor_base::Position;

use crate::epochs::Epochs;
use crate::error::Failure;
use crate::format::{FIRST_EPOCH, Kind, POSITION_MAX, SEGMENT_HEADER_BYTES};
use crate::recovery::Tail;
use crate::scanner::{Scanner, Step};
use crate::segment::{Begin, Segment};
use crate::shared::Shared;
use crate::writer::Writer;
use crate::{Error, Result};

/// The place behind the last record that is kept.
struct Place {
    /// Number of segments that are kept; the last of them is appended to.
    kept: usize,
    segment: Arc<Segment>,
    offset: u64,
    tail: Tail,
}

impl Place {
    fn leaves_no_record(&self) -> bool {
        self.offset == SEGMENT_HEADER_BYTES as u64
    }
}

impl Shared {
    pub(crate) fn epochs(&self) -> Epochs {
        // The end first: what is appended later may be of an epoch that is not listed here.
        let last = self.appended();
        let segments = self.segments();
        let before = segments.first().map_or(0, |segment| segment.header.epoch_before);
        let begins = segments.iter().map(|segment| (segment.epoch(), Position(segment.first())));
        Epochs::new(before, begins, last)
    }

    fn require_writable(&self) -> Result<()> {
        self.require_sound()?;
        if self.closed.load(Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn begin_epoch(&self, epoch: u64) -> Result<()> {
        let mut writer = self.writer();
        self.require_writable()?;
        let current = writer.segment.clone();
        if epoch == current.epoch() {
            return Ok(());
        }
        let at_least = if current.is_empty() { current.header.epoch_before.max(1) } else { current.epoch() };
        if epoch < at_least {
            return Err(Error::StaleEpoch { epoch, current: at_least });
        }
        let mut prepared = self.prepared();
        if current.is_empty() {
            assert!(prepared.is_none(), "no segment is prepared behind an empty one");
            writer.replace(epoch).map_err(|failure| self.fail(failure))?;
            let mut segments = self.segments.write();
            writer.segment.set_first(writer.next());
            let replaced = segments.last_mut().map(|last| std::mem::replace(last, writer.segment.clone()));
            assert!(
                replaced.is_some_and(|replaced| Arc::ptr_eq(&replaced, &current)),
                "the writer's segment is the last"
            );
            drop(segments);
            self.cuts.note(writer.next() - 1);
            return Ok(());
        }
        writer.finish_segment().map_err(|failure| self.fail(failure))?;
        // In the place of the prepared one, which has another epoch.
        let created = Segment::create(&*self.disk, &self.dir, writer.following(epoch));
        let segment = created.map_err(|failure| self.fail(failure))?;
        *prepared = None;
        self.roll_to(&mut writer, Some(segment), &mut prepared)
    }

    pub(crate) fn cut_behind(&self, position: u64) -> Result<()> {
        let _no_trim = self.trimming.lock();
        let _leadership = self.sync.lead();
        let mut writer = self.writer();
        self.require_writable()?;
        let (appended, first) = (self.appended(), self.first());
        if position >= appended.0 {
            return match position == appended.0 {
                true => Ok(()),
                false => Err(Error::NotAppended { position: Position(position), appended }),
            };
        }
        if position + 1 < first.0 {
            return Err(Error::Trimmed { position: Position(position), first });
        }
        let place = self.place_behind(position)?;
        let mut prepared = self.prepared();
        let mut removed = self.forget_behind(&mut writer, &place, position);
        removed.extend(prepared.take().map(Arc::new));
        let removed = self.remove_files(&removed).map_err(Failure::poisoned);
        let cut = removed.and_then(|()| match place.leaves_no_record() {
            true => self.begin_again(&mut writer, position),
            false => {
                place.segment.file.set_len(place.offset)?;
                Ok(place.segment.file.sync_data()?)
            }
        });
        // What is in memory has changed already.
        cut.map_err(|failure| self.poison(Error::from(failure).to_string()))
    }

    /// Creates an empty segment in the place of the only one, of which no record is left. The old header may name a position before
    /// those that were trimmed as the one that it follows, and nothing else says any more where the log continues (L6).
    fn begin_again(&self, writer: &mut Writer, position: u64) -> Result<(), Failure> {
        writer.replace(writer.segment.epoch())?;
        let segment = writer.segment.clone();
        assert_eq!(segment.header.floor, position, "L6: an empty log continues behind the cut");
        let mut segments = self.segments.write();
        assert_eq!(segments.len(), 1, "L5: a log without records has one segment");
        *segments = vec![segment];
        Ok(())
    }

    fn place_behind(&self, position: u64) -> Result<Place> {
        let segments = self.segments();
        let behind = segments.partition_point(|segment| segment.first() <= position);
        let kept = behind.max(1);
        let Some(segment) = segments.get(kept - 1).cloned() else { unreachable!("a log has a segment") };
        let from_start = (SEGMENT_HEADER_BYTES as u64, position + 1);
        let (start, first) = if behind == 0 { from_start } else { segment.landmark_before(position) };
        let mut scanner = Scanner::new(segment.clone(), start, Some(first), None);
        loop {
            let (offset, previous) = match scanner.step()? {
                // All records go; the first of them says what was before it.
                Step::Record(header) if behind == 0 => (start, header.previous),
                Step::Record(header) if header.kind == Kind::Data && header.position == position => {
                    (scanner.offset(), scanner.previous().unwrap_or(0))
                }
                Step::Record(_) => continue,
                Step::Bad(reason) => return Err(segment.corrupt(scanner.offset(), reason)),
                Step::End => return Err(segment.corrupt(scanner.offset(), "the record to cut behind is missing")),
            };
            let tail = Tail { next: position + 1, previous, marked: false };
            return Ok(Place { kept, segment, offset, tail });
        }
    }

    /// Changes what is in memory; returns the segments whose files are to be removed, oldest first.
    fn forget_behind(&self, writer: &mut Writer, place: &Place, position: u64) -> Vec<Arc<Segment>> {
        // Who notifies the listener of a sync reads the durable position under this lock.
        let _no_notice = self.listener.write();
        self.tail.retreat(position);
        self.sync.set(self.sync.durable().min(position));
        self.notified.fetch_min(position, AcqRel);
        assert!(self.sync.durable() <= position, "a cut behind {position} leaves nothing durable beyond it");
        let removed = self.segments.write().split_off(place.kept);
        place.segment.set_end(place.offset);
        place.segment.forget_from(place.offset);
        writer.continue_at(place.segment.clone(), place.tail);
        self.cuts.note(position);
        removed
    }

    /// From the newest on, each removal durable before the next: a crash leaves no gap (L5).
    fn remove_files(&self, segments: &[Arc<Segment>]) -> arbor_disk::Result<()> {
        for segment in segments.iter().rev() {
            self.disk.remove(segment.file.path())?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    pub(crate) fn reset(&self, first: u64, epoch_before: u64) -> Result<()> {
        let _no_trim = self.trimming.lock();
        let _leadership = self.sync.lead();
        let mut writer = self.writer();
        self.require_writable()?;
        let mut prepared = self.prepared();
        let first = first.clamp(1, POSITION_MAX);
        let mut removed = self.segments();
        let sequence = removed.last().map_or(1, |segment| segment.sequence() + 1);
        removed.extend(prepared.take().map(Arc::new));
        self.cuts.note(0);
        let epoch = epoch_before.max(FIRST_EPOCH);
        let begin = Begin { sequence, floor: first - 1, epoch, epoch_before };
        let created = self.remove_files(&removed).map_err(Failure::poisoned);
        let created = created.and_then(|()| Segment::create(&*self.disk, &self.dir, begin));
        let segment = Arc::new(created.map_err(|failure| self.poison(Error::from(failure).to_string()))?);
        let _no_notice = self.listener.write();
        *self.segments.write() = vec![segment.clone()];
        self.tail.retreat(first - 1);
        self.sync.set(first - 1);
        self.notified.fetch_min(first - 1, AcqRel);
        writer.continue_at(segment, Tail { next: first, previous: 0, marked: false });
        Ok(())
    }
}
