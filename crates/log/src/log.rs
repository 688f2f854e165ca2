//! [`Log`]: opening, and what its users call.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use arbor_base::Position;
use arbor_disk::Disk;
use parking_lot::{Mutex, RwLock};

use crate::cuts::Cuts;
use crate::epochs::{Epochs, Matching};
use crate::recovery::{Recovered, recover};
use crate::shared::{Shared, SyncListener};
use crate::stats::Counters;
use crate::sync_state::{Alarm, SyncState};
use crate::tail::Tail;
use crate::writer::Writer;
use crate::{Error, LogOptions, LogStats, Reader, Result, sync};

/// The commit log of one directory. All methods may be called from many threads.
///
/// Dropping it stops the background thread without a last sync, as a crash would; [`Log::close`] ends it cleanly.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    syncer: Mutex<Option<JoinHandle<()>>>,
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
            cuts: Cuts::default(),
            sync: SyncState::new(appended),
            alarm: Alarm::new(options.commit_interval),
            listener: RwLock::new(None),
            notified: AtomicU64::new(0),
            trimming: Mutex::new(()),
            poisoned: OnceLock::new(),
            closed: AtomicBool::new(false),
            counters: Counters::default(),
        });
        let syncer = options.background.then(|| spawn_syncer(shared.clone())).transpose()?;
        Ok(Log { shared, syncer: Mutex::new(syncer) })
    }

    /// Appends one record per payload, all or nothing, in one write. Returns the position of the last one; they are
    /// consecutive. For an empty group it is the last position so far. Not durable before [`Log::wait_durable`].
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

    /// Returns when `position` is durable and the listener knows it; shares one fsync with all waiters.
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
        *self.shared.listener.write() = Some(listener);
    }

    /// Returns the time from an append to the sync by the background thread.
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

    /// Ends the current segment, so that it can be removed once it is not needed, and continues in a new one.
    pub fn roll(&self) -> Result<()> {
        let mut writer = self.shared.writer();
        self.shared.require_sound()?;
        if self.shared.closed.load(Acquire) || writer.segment.is_empty() {
            return Ok(());
        }
        self.shared.roll(&mut writer)
    }

    /// Has later records belong to `epoch`, in a segment of their own. Without effect when they do already. An epoch that is
    /// begun and has no durable record may be forgotten by a crash.
    ///
    /// Errors: [`Error::StaleEpoch`] when the log has records of a later one.
    pub fn begin_epoch(&self, epoch: u64) -> Result<()> {
        self.shared.begin_epoch(epoch)
    }

    /// The epochs of the records that are kept.
    pub fn epochs(&self) -> Epochs {
        self.shared.epochs()
    }

    /// The epoch of a record, also of the one before the first that is kept. `None`: it is not known.
    pub fn epoch_at(&self, position: Position) -> Option<u64> {
        let segment = self.shared.segment_holding(position.0).filter(|_| position <= self.appended());
        segment.map_or_else(|| self.epochs().at(position), |segment| Some(segment.epoch()))
    }

    /// Compares the end of another log, its last position and the epoch of it, with this one.
    pub fn compare(&self, position: Position, epoch: u64) -> Matching {
        self.epochs().compare(position, epoch)
    }

    /// Cuts off all records behind `position`, durably. Readers that have read further, and threads that wait for what is cut
    /// off, get [`Error::Cut`].
    ///
    /// Errors: after `Poisoned` the cut may be there or not when the log is opened again. `Trimmed`, `NotAppended`: nothing has
    /// changed.
    pub fn cut_behind(&self, position: Position) -> Result<()> {
        self.shared.cut_behind(position.0)
    }

    /// Drops all records and continues at `first`, after a record of `epoch_before` (0: not known). A crash meanwhile leaves a first
    /// part of the former log, or an empty one.
    pub fn reset(&self, first: Position, epoch_before: u64) -> Result<()> {
        self.shared.reset(first.0, epoch_before)
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
        let stats = LogStats {
            first: segments.first().map_or(Position::ZERO, |segment| Position(segment.first())),
            appended: self.appended(),
            durable: self.durable(),
            segments: segments.len() as u64,
            disk_bytes: segments.iter().map(|segment| segment.end()).sum(),
            ..LogStats::default()
        };
        self.shared.counters.fill(stats)
    }

    /// Makes everything durable, marks the clean end and refuses appends from then on. Reads still work.
    pub fn close(&self) -> Result<()> {
        self.stop_syncer();
        if self.shared.closed.swap(true, AcqRel) {
            return Ok(());
        }
        self.shared.finish()
    }

    fn stop_syncer(&self) {
        self.shared.alarm.close();
        let syncer = self.syncer.lock().take();
        // What a listener drops may hold the last reference to the log: then it is the thread itself that ends it.
        let is_own = |syncer: &JoinHandle<()>| syncer.thread().id() == std::thread::current().id();
        if let Some(syncer) = syncer.filter(|syncer| !is_own(syncer)) {
            // A panic of the thread has been reported by the panic hook and has poisoned nothing that is used here.
            let _ = syncer.join();
        }
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
