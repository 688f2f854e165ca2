//! [`Log`]: the writer, the sync state and the list of segments under one roof.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use arbor_base::Position;
use arbor_disk::Disk;

use crate::error::Failure;
use crate::format::POSITION_MAX;
use crate::recovery::{Recovered, recover};
use crate::segment::Segment;
use crate::stats::Counters;
use crate::sync::{self, Alarm, SyncState};
use crate::tail::Tail;
use crate::writer::Writer;
use crate::{Error, LogOptions, LogStats, Reader, Result};

/// The commit log of one folder. All methods may be called from many threads.
///
/// Dropping it stops the background thread without a last sync, as a crash would; [`Log::close`] ends it cleanly.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    syncer: Mutex<Option<JoinHandle<()>>>,
}

/// Called with the last durable position by the thread that synced, which holds no lock of the log; it may hear of an
/// older position later. Answers whether the next sync is wanted at once.
pub type SyncListener = Arc<dyn Fn(Position) -> bool + Send + Sync>;

/// What the log, its background thread and its readers share.
pub(crate) struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    writer: Mutex<Writer>,
    /// Oldest first, never empty; the last is the writer's.
    segments: RwLock<Vec<Arc<Segment>>>,
    /// The segment after the current one, when it was created ahead. Held while it is created; taken inside the writer
    /// mutex.
    prepared: Mutex<Option<Segment>>,
    tail: Tail,
    pub sync: SyncState,
    pub alarm: Alarm,
    /// Told of every sync that made something durable.
    listener: RwLock<Option<SyncListener>>,
    /// Held while segments are removed.
    trimming: Mutex<()>,
    poisoned: OnceLock<String>,
    closed: AtomicBool,
    pub counters: Counters,
}

impl Log {
    /// Opens the log in `dir`, creating it when there is none, and cuts a tail that a crash has torn.
    ///
    /// Ensures: everything that is readable afterwards is durable.
    /// Errors: [`Error::Corrupt`] when records that had been durable are damaged; nothing is changed then.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<Log> {
        let Recovered { segments, tail } = recover(&*disk, dir, &options)?;
        let Some(current) = segments.last().cloned() else { unreachable!("I1: recovery keeps a segment") };
        let appended = tail.next - 1;
        let writer = Writer::new(disk.clone(), dir.to_owned(), options.segment_bytes, current, tail);
        let shared = Arc::new(Shared {
            disk,
            dir: dir.to_owned(),
            segment_bytes: options.segment_bytes,
            writer: Mutex::new(writer),
            segments: RwLock::new(segments),
            prepared: Mutex::new(None),
            tail: Tail::new(appended),
            sync: SyncState::new(appended),
            alarm: Alarm::new(options.commit_interval),
            listener: RwLock::new(None),
            trimming: Mutex::new(()),
            poisoned: OnceLock::new(),
            closed: AtomicBool::new(false),
            counters: Counters::default(),
        });
        let syncer = spawn_syncer(shared.clone())?;
        Ok(Log { shared, syncer: Mutex::new(Some(syncer)) })
    }

    /// Appends one record per payload, all or nothing, in one write. Answers the position of the last one; they are
    /// consecutive. An empty group answers the last position so far. Not durable before [`Log::wait_durable`].
    ///
    /// Errors: after `OutOfSpace`, `Io` and `TooLarge` the log is as before and usable.
    pub fn append(&self, payloads: &[&[u8]]) -> Result<Position> {
        self.shared.append(payloads)
    }

    /// Position of the last appended record; one before the first position in an empty log.
    pub fn appended(&self) -> Position {
        self.shared.appended()
    }

    /// Every record up to here survives a crash.
    pub fn durable(&self) -> Position {
        Position(self.shared.sync.durable())
    }

    /// Returns when `position` is durable; shares one fsync with everybody who waits.
    pub fn wait_durable(&self, position: Position) -> Result<()> {
        let appended = self.appended();
        if position > appended {
            return Err(Error::NotAppended { position, appended });
        }
        self.shared.sync_to(position.0)
    }

    /// Asks the background thread to sync soon, without waiting.
    pub fn request_sync(&self) {
        self.shared.alarm.request();
    }

    /// Has `listener` called after every sync that made something durable, in the place of an earlier one.
    pub fn on_sync(&self, listener: SyncListener) {
        *self.shared.listener.write().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// How long after an append the background thread syncs.
    pub fn commit_interval(&self) -> Duration {
        self.shared.alarm.interval()
    }

    pub fn set_commit_interval(&self, interval: Duration) {
        self.shared.alarm.set_interval(interval);
    }

    /// Creates the next segment file ahead when the current one is half full, so that no append waits for it. The
    /// background thread does this every `commit_interval`.
    pub fn prepare_segment(&self) -> Result<()> {
        self.shared.prepare_segment()
    }

    /// Ends the current segment, so that it can be removed once it is not needed, and goes on in a new one.
    pub fn roll(&self) -> Result<()> {
        let mut writer = self.shared.writer();
        self.shared.require_sound()?;
        if self.shared.closed.load(Acquire) || writer.segment.is_empty() {
            return Ok(());
        }
        self.shared.roll(&mut writer)
    }

    /// Reads from `from` on (`Position::ZERO` means 1). Records before [`Log::first`] are [`Error::Trimmed`].
    pub fn read(&self, from: Position) -> Reader {
        Reader::new(self.shared.clone(), from)
    }

    /// Removes whole segments whose records are all before `before`. The segment of the last durable record always stays.
    pub fn trim(&self, before: Position) -> Result<()> {
        self.shared.trim(before.0)
    }

    /// Position of the oldest record kept (of the next one when there is none).
    pub fn first(&self) -> Position {
        self.shared.first()
    }

    /// First position and bytes of each segment, oldest first.
    pub fn segments(&self) -> Vec<(Position, u64)> {
        self.shared.segments().iter().map(|segment| (Position(segment.first()), segment.end())).collect()
    }

    pub fn stats(&self) -> LogStats {
        let segments = self.shared.segments();
        let figures = LogStats {
            first: segments.first().map_or(Position::ZERO, |segment| Position(segment.first())),
            appended: self.appended(),
            durable: self.durable(),
            segments: segments.len() as u64,
            disk_bytes: segments.iter().map(|segment| segment.end()).sum(),
            ..LogStats::default()
        };
        self.shared.counters.fill(figures)
    }

    /// Makes everything durable, marks the clean end and refuses appends from then on. Reading goes on working.
    pub fn close(&self) -> Result<()> {
        self.stop_syncer();
        if self.shared.closed.swap(true, AcqRel) {
            return Ok(());
        }
        self.shared.finish()
    }

    fn stop_syncer(&self) {
        self.shared.alarm.close();
        let syncer = self.syncer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What a listener drops may hold the last reference to the log: then it is the thread itself that ends it.
        let is_own = |syncer: &JoinHandle<()>| syncer.thread().id() == std::thread::current().id();
        if let Some(syncer) = syncer.filter(|syncer| !is_own(syncer)) {
            // A panic of the thread has been reported by the panic hook and has poisoned nothing that is used here.
            let _ = syncer.join();
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("dir", &self.dir).field("writer", &self.writer).finish_non_exhaustive()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop_syncer();
    }
}

fn spawn_syncer(shared: Arc<Shared>) -> Result<JoinHandle<()>> {
    let dir = shared.dir.clone();
    let thread = std::thread::Builder::new().name("log-sync".into());
    thread
        .spawn(move || sync::run(&shared))
        .map_err(|error| Error::from(arbor_disk::Error::from_io("start the syncing thread of", &dir, error)))
}

impl Shared {
    pub fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic inside the writer leaves it as before the append, or poisons the log; see `append`.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn appended(&self) -> Position {
        Position(self.tail.appended())
    }

    pub fn first(&self) -> Position {
        self.segments().first().map_or(Position::ZERO, |segment| Position(segment.first()))
    }

    fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The segment that holds a position, `None` when it was trimmed.
    pub fn segment_holding(&self, position: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let behind = segments.partition_point(|segment| segment.first() <= position);
        segments.get(behind.checked_sub(1)?).cloned()
    }

    pub fn segment_after(&self, sequence: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let behind = segments.partition_point(|segment| segment.sequence() <= sequence);
        segments.get(behind).filter(|segment| segment.sequence() == sequence + 1).cloned()
    }

    pub fn is_last(&self, sequence: u64) -> bool {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.last().is_none_or(|last| last.sequence() == sequence)
    }

    pub fn require_sound(&self) -> Result<()> {
        match self.poisoned.get() {
            Some(context) => Err(Error::Poisoned { context: context.clone() }),
            None => Ok(()),
        }
    }

    /// Refuses writes from now on; the first reason is kept.
    pub fn poison(&self, reason: String) -> Error {
        let context = self.poisoned.get_or_init(|| reason).clone();
        Error::Poisoned { context }
    }

    fn append(&self, payloads: &[&[u8]]) -> Result<Position> {
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

    fn roll_when_full(&self, writer: &mut Writer) -> Result<()> {
        if writer.is_full() { self.roll(writer) } else { Ok(()) }
    }

    fn roll(&self, writer: &mut Writer) -> Result<()> {
        let mut prepared = self.prepared();
        writer.roll(prepared.take()).map_err(|failure| self.fail(failure))?;
        self.segments.write().unwrap_or_else(PoisonError::into_inner).push(writer.segment.clone());
        Ok(())
    }

    fn prepared(&self) -> MutexGuard<'_, Option<Segment>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the next segment when the current one is half full, since creating takes two syncs.
    pub fn prepare_segment(&self) -> Result<()> {
        let mut prepared = self.prepared();
        // Looked up inside the lock: no roll happens meanwhile, so the sequence numbers fit.
        let Some(current) = self.segments().pop() else { return Ok(()) };
        if prepared.is_some() || current.is_empty() || current.end() < self.segment_bytes / 2 {
            return Ok(());
        }
        self.require_sound()?;
        let (sequence, floor) = (current.sequence() + 1, self.appended().0);
        if floor >= POSITION_MAX {
            return Ok(());
        }
        let created = Segment::create(&*self.disk, &self.dir, sequence, floor);
        *prepared = Some(created.map_err(|failure| self.fail(failure))?);
        Ok(())
    }

    fn fail(&self, failure: Failure) -> Error {
        match failure {
            Failure::TakenBack(error) => error,
            Failure::Poisoned(reason) => self.poison(reason),
        }
    }

    pub fn tell_listener(&self) {
        let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner).clone();
        if listener.is_some_and(|listener| listener(Position(self.sync.durable()))) {
            self.alarm.request();
        }
    }

    /// After a background sync: the next append alarms again; one that slipped in between is alarmed here.
    pub fn rearm(&self) {
        if self.tail.give_back_alarm(self.sync.durable()) {
            self.alarm.appended();
        }
    }

    fn finish(&self) -> Result<()> {
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
        segment.file.sync_data().map_err(|error| self.poison(error.to_string()))
    }

    /// A segment leaves the list after its file is gone for good, so that a failure keeps the order of L5.
    fn trim(&self, before: u64) -> Result<()> {
        let _one_at_a_time = self.trimming.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(oldest) = self.droppable(before) {
            self.require_sound()?;
            self.disk.remove(oldest.file.path())?;
            self.disk.sync_dir(&self.dir).map_err(|error| self.poison(error.to_string()))?;
            self.segments.write().unwrap_or_else(PoisonError::into_inner).remove(0);
        }
        Ok(())
    }

    /// The oldest segment, when all its records are before `before` and a later segment holds a durable one (L6).
    fn droppable(&self, before: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let second = segments.get(1)?.first();
        (second <= before && second <= self.sync.durable()).then(|| segments.first().cloned())?
    }
}
