//! State shared by the log, its background thread and its readers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arbor_base::{Position, paranoid};
use arbor_disk::Disk;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::cuts::Cuts;
use crate::error::Failure;
use crate::format::POSITION_MAX;
use crate::segment::{Begin, Segment};
use crate::stats::Counters;
use crate::sync_state::{Alarm, SyncState};
use crate::tail::Tail;
use crate::writer::Writer;
use crate::{Error, Result};

/// Called with the last durable position by the thread that synced, which holds no lock of the log; it may be called
/// with an older position later: late, or because records were cut off. Returns true if the next sync is needed at once.
pub type SyncListener = Arc<dyn Fn(Position) -> bool + Send + Sync>;

/// The segment that was created ahead, if there is one.
pub(crate) type Prepared = Option<Segment>;

/// State shared by the log, its background thread and its readers.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) segment_bytes: u64,
    pub(crate) writer: Mutex<Writer>,
    /// Oldest first, never empty; the last is the writer's.
    pub(crate) segments: RwLock<Vec<Arc<Segment>>>,
    /// The segment after the current one, when it was created ahead. Held while it is created; taken inside the writer
    /// mutex.
    pub(crate) prepared: Mutex<Prepared>,
    pub(crate) tail: Tail,
    pub(crate) cuts: Cuts,
    pub sync: SyncState,
    pub alarm: Alarm,
    /// Notified of every sync that made something durable.
    pub(crate) listener: RwLock<Option<SyncListener>>,
    /// The listener knows that the log is durable up to here.
    pub(crate) notified: AtomicU64,
    /// Held while segments are removed.
    pub(crate) trimming: Mutex<()>,
    pub(crate) poisoned: OnceLock<String>,
    pub(crate) closed: AtomicBool,
    pub counters: Counters,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("dir", &self.dir).field("writer", &self.writer).finish_non_exhaustive()
    }
}

fn is_ordered(segments: &[Arc<Segment>]) -> bool {
    let follows = |one: &Segment, next: &Segment| {
        one.sequence() + 1 == next.sequence() && one.first() <= next.first() && one.epoch() <= next.epoch()
    };
    segments.is_sorted_by(|one, next| follows(one, next))
}

impl Shared {
    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic inside the writer leaves it as before the append, or poisons the log; see `append`.
        self.writer.lock()
    }

    pub(crate) fn appended(&self) -> Position {
        Position(self.tail.appended())
    }

    pub(crate) fn first(&self) -> Position {
        self.segments().first().map_or(Position::ZERO, |segment| Position(segment.first()))
    }

    pub(crate) fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.read().clone()
    }

    /// The segment that holds a position, `None` when it was trimmed.
    pub(crate) fn segment_holding(&self, position: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let behind = segments.partition_point(|segment| segment.first() <= position);
        segments.get(behind.checked_sub(1)?).cloned()
    }

    pub(crate) fn segment_after(&self, sequence: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let behind = segments.partition_point(|segment| segment.sequence() <= sequence);
        segments.get(behind).filter(|segment| segment.sequence() == sequence + 1).cloned()
    }

    pub(crate) fn is_last(&self, sequence: u64) -> bool {
        let segments = self.segments.read();
        segments.last().is_none_or(|last| last.sequence() == sequence)
    }

    pub(crate) fn require_sound(&self) -> Result<()> {
        match self.poisoned.get() {
            Some(context) => Err(Error::Poisoned { context: context.clone() }),
            None => Ok(()),
        }
    }

    /// Refuses writes from now on; the first reason is kept.
    pub(crate) fn poison(&self, reason: String) -> Error {
        let context = self.poisoned.get_or_init(|| reason).clone();
        Error::Poisoned { context }
    }

    pub(crate) fn append(&self, payloads: &[&[u8]]) -> Result<Position> {
        let mut writer = self.writer();
        self.require_sound()?;
        if self.closed.load(Acquire) {
            return Err(Error::Closed);
        }
        if payloads.is_empty() {
            return Ok(self.appended());
        }
        writer.check(payloads)?;
        self.roll_when_full(&mut writer)?;
        let before = writer.segment.end();
        let end = writer.write(payloads, self.sync.durable()).map_err(|failure| self.fail(failure))?;
        let last = writer.next() - 1;
        let appended = self.appended().0;
        assert_eq!(last, appended + payloads.len() as u64, "records were appended at {appended} by two threads");
        assert!(end > before, "the end of a segment moves forwards");
        // The position first: a reader never finds a record beyond `appended`.
        self.tail.advance(last);
        writer.segment.set_end(end);
        drop(writer);
        self.counters.appended(payloads.len() as u64, end - before);
        if self.tail.take_alarm() {
            self.alarm.appended();
        }
        Ok(Position(last))
    }

    pub(crate) fn roll_when_full(&self, writer: &mut Writer) -> Result<()> {
        if writer.is_full() { self.roll(writer) } else { Ok(()) }
    }

    pub(crate) fn roll(&self, writer: &mut Writer) -> Result<()> {
        // First what may fail and be tried again: the file of a prepared segment must not be forgotten.
        writer.finish_segment().map_err(|failure| self.fail(failure))?;
        let mut prepared = self.prepared();
        let segment = prepared.take();
        self.roll_to(writer, segment, &mut prepared)
    }

    /// Requires the lock of the prepared segment until the new one is listed: else another one of its name could be prepared.
    pub(crate) fn roll_to(&self, writer: &mut Writer, segment: Option<Segment>, prepared: &mut Prepared) -> Result<()> {
        assert!(prepared.is_none(), "one segment follows the current one");
        writer.roll(segment).map_err(|failure| self.fail(failure))?;
        let mut segments = self.segments.write();
        segments.push(writer.segment.clone());
        paranoid!(is_ordered(&segments), "L5: segments follow each other without a gap");
        Ok(())
    }

    pub(crate) fn prepared(&self) -> MutexGuard<'_, Prepared> {
        self.prepared.lock()
    }

    /// Creates the next segment when the current one is half full, since creating takes two syncs.
    pub(crate) fn prepare_segment(&self) -> Result<()> {
        let mut prepared = self.prepared();
        // Looked up inside the lock: no roll happens meanwhile, so the sequence numbers fit.
        let Some(current) = self.segments().pop() else { return Ok(()) };
        if prepared.is_some() || current.is_empty() || current.end() < self.segment_bytes / 2 {
            return Ok(());
        }
        self.require_sound()?;
        let (sequence, floor, epoch) = (current.sequence() + 1, self.appended().0, current.epoch());
        if floor >= POSITION_MAX {
            return Ok(());
        }
        let created = Segment::create(&*self.disk, &self.dir, Begin { sequence, floor, epoch, epoch_before: epoch });
        *prepared = Some(created.map_err(|failure| self.fail(failure))?);
        Ok(())
    }

    pub(crate) fn fail(&self, failure: Failure) -> Error {
        match failure {
            Failure::RolledBack(error) => error,
            Failure::Poisoned(reason) => self.poison(reason),
        }
    }

    pub(crate) fn notify_listener(&self) {
        // Under the lock, so that a cut comes before the listener reads the position or after it has done its work.
        let listener = self.listener.read();
        let durable = self.sync.durable();
        let again = listener.as_ref().is_some_and(|listener| listener(Position(durable)));
        self.notified.fetch_max(durable, AcqRel);
        let notified = self.notified.load(Acquire);
        assert!(notified <= self.sync.durable(), "the listener was notified of {notified}, which is not durable");
        drop(listener);
        if again {
            self.alarm.request();
        }
    }

    /// After a background sync: the next append alarms again; one that slipped in between is alarmed here.
    pub(crate) fn rearm(&self) {
        if self.tail.give_back_alarm(self.sync.durable()) {
            self.alarm.appended();
        }
    }

    pub(crate) fn finish(&self) -> Result<()> {
        let mut writer = self.writer();
        let last = self.appended().0;
        drop(writer);
        self.require_sound()?;
        self.sync_to(last)?;
        writer = self.writer();
        let end = writer.write_mark(last).map_err(|failure| self.fail(failure))?;
        writer.segment.set_end(end);
        let segment = writer.segment.clone();
        drop(writer);
        segment.file.release_reserved()?;
        segment.file.sync_data().map_err(|error| self.poison(error.to_string()))
    }

    /// A segment leaves the list after its file is gone for good, so that a failure keeps the order of L5.
    pub(crate) fn trim(&self, before: u64) -> Result<()> {
        let _one_at_a_time = self.trimming.lock();
        while let Some(oldest) = self.droppable(before) {
            self.require_sound()?;
            let begun = Instant::now();
            self.disk.remove(oldest.file.path())?;
            self.disk.sync_dir(&self.dir).map_err(|error| self.poison(error.to_string()))?;
            let removed = self.segments.write().remove(0);
            assert!(Arc::ptr_eq(&removed, &oldest), "L5: segments are removed from the oldest on");
            assert!(removed.first() <= before, "segment {} begins after {before}", removed.sequence());
            self.counters.trimmed(begun.elapsed());
        }
        Ok(())
    }

    /// The oldest segment, when all its records are before `before` and a later segment holds a durable one (L6).
    pub(crate) fn droppable(&self, before: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.read();
        let second = segments.get(1)?.first();
        (second <= before && second <= self.sync.durable()).then(|| segments.first().cloned())?
    }
}
