//! State shared by the engine and its background thread: one writer, many readers, concurrent checkpoints.
//!
//! Locks, in the order in which they are taken: `pin` (checkpoints, one at a time; the log's barrier is waited for under
//! it), `writer` (the writer: a group of
//! batches, a step of a sweep, a piece of a bulk load), LMDB's own. Readers take none of them.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arbor_base::Position;
use arbor_engine::adapter::BarrierSlot;
use arbor_engine::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

use crate::alarm::Alarm;
use crate::checkpoint::Checkpoint;
use crate::directory::Directory;
use crate::edit::{Edit, WriterState, newest_state};
use crate::files::DATA_FILE;
use crate::keys::Content;
use crate::positions::Positions;
use crate::raw::{Env, ReadTxn};
use crate::readers::Readers;
use crate::{LmdbOptions, records};

/// Below this much free space a failed write counts as a full disk: LMDB calls a short write EIO.
const FREE_SPACE_BYTES_MIN: u64 = 4 << 20;

pub(crate) struct Core {
    pub(crate) readers: Readers,
    pin: Mutex<Pin>,
    pub(crate) barrier: BarrierSlot,
    writer: Mutex<WriterState>,
    pub(crate) positions: Arc<Positions>,
    pub(crate) applied: AtomicU64,
    pub(crate) durable: AtomicU64,
    /// `WriterState::freed_pages` now and at the last checkpoint: pages freed in between cannot be reused yet.
    pub(crate) freed_pages: AtomicU64,
    pub(crate) freed_pages_pinned: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) alarm: Alarm,
    pub(crate) data: File,
    pub(crate) env: Arc<Env>,
    pub(crate) options: LmdbOptions,
    directory: Directory,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub checkpoints: AtomicU64,
    pub checkpoint_ms: AtomicU64,
    pub uncounted_checkpoints: AtomicU64,
    pub commits: AtomicU64,
    pub swept_rows: AtomicU64,
    pub background_errors: AtomicU64,
}

/// Keeps LMDB from writing over the pages of the checkpointed state.
struct Pin {
    /// Sees the checkpointed state.
    txn: ReadTxn,
    /// Rests between checkpoints, so that a checkpoint finds a reader slot when snapshots have taken all others.
    spare: ReadTxn,
    /// Contents of `checkpoint.meta`; `None` while the directory is being made.
    saved: Option<Checkpoint>,
}

impl Core {
    /// Writes the first rows and makes the first checkpoint.
    pub(crate) fn create(env: Arc<Env>, options: LmdbOptions, directory: Directory) -> Result<Core> {
        let first = WriterState::new(HashMap::new(), 1, Position::ZERO);
        let core = Core::new(env, options, directory, first, None)?;
        {
            let mut writer = core.lock_writer();
            let mut edit = Edit::begin(&core.env, &mut writer, None)?;
            // A content of no tree: its fence ends the pages of the records.
            edit.new_content()?;
            edit.commit()?;
        }
        core.checkpoint()?;
        core.directory.created()?;
        Ok(core)
    }

    pub(crate) fn reopen(
        env: Arc<Env>,
        options: LmdbOptions,
        directory: Directory,
        checkpoint: Checkpoint,
    ) -> Result<Core> {
        let txn = ReadTxn::begin(&env)?;
        let mut writer = WriterState::new(records::trees(&txn)?, records::next_content(&txn)?, checkpoint.position);
        if !checkpoint.counted {
            writer.recount(&txn)?;
        }
        let pending_drops = records::first_pending_drop(&txn)?.is_some();
        drop(txn);
        let core = Core::new(env, options, directory, writer, Some(checkpoint))?;
        core.drop_unfinished_loads()?;
        if pending_drops {
            core.alarm.sweep();
        }
        Ok(core)
    }

    /// Pins the state that the environment was opened in.
    fn new(
        env: Arc<Env>,
        options: LmdbOptions,
        directory: Directory,
        mut writer: WriterState,
        saved: Option<Checkpoint>,
    ) -> Result<Core> {
        let mut spare = ReadTxn::begin(&env)?;
        spare.reset();
        let position = writer.applied;
        let positions = writer.positions.clone();
        positions.set(newest_state(&env)?, position);
        writer.move_to_newest(&env)?;
        let data = File::open(directory.path.join(DATA_FILE))
            .map_err(|source| Error::Io { context: "open data.mdb".to_owned(), source })?;
        Ok(Core {
            readers: Readers::new(&env),
            pin: Mutex::new(Pin { txn: ReadTxn::begin(&env)?, spare, saved }),
            barrier: BarrierSlot::default(),
            writer: Mutex::new(writer),
            positions,
            applied: AtomicU64::new(position.0),
            durable: AtomicU64::new(position.0),
            freed_pages: AtomicU64::new(0),
            freed_pages_pinned: AtomicU64::new(0),
            counters: Counters::default(),
            alarm: Alarm::default(),
            data,
            env,
            options,
            directory,
        })
    }

    fn drop_unfinished_loads(&self) -> Result<()> {
        loop {
            let mut writer = self.lock_writer();
            let mut edit = Edit::begin(&self.env, &mut writer, None)?;
            let Some(content) = records::first_loading(&edit.txn)? else { return Ok(()) };
            edit.end_load(content)?;
            edit.mark_dropped(content)?;
            edit.commit()?;
            self.alarm.sweep();
        }
    }

    pub(crate) fn lock_writer(&self) -> MutexGuard<'_, WriterState> {
        // The writer changes only after a commit, in steps that do not panic.
        self.writer.lock()
    }

    /// Runs one write transaction. After an error nothing of it is applied.
    pub(crate) fn edit<T>(&self, change: impl FnOnce(&mut Edit<'_>) -> Result<T>) -> Result<T> {
        let mut writer = self.lock_writer();
        let result = Edit::begin(&self.env, &mut writer, self.options.updates.as_deref()).and_then(|mut edit| {
            let answer = change(&mut edit)?;
            Ok((answer, edit.commit()?))
        });
        match result {
            Ok((answer, pending_drops)) => {
                self.applied.store(writer.applied.0, Ordering::Release);
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                self.watch_freed(&mut writer);
                if pending_drops {
                    self.alarm.sweep();
                }
                Ok(answer)
            }
            Err(error) => Err(self.judge(&mut writer, error)),
        }
    }

    /// Classifies a failed write: no space, an invalid request, or the end of writing. Reads continue in all cases.
    fn judge(&self, writer: &mut WriterState, error: Error) -> Error {
        if self.env.is_dead() {
            if let Some((txn, position)) = writer.take_newest() {
                self.readers.end_at(txn, position);
            }
            let context = writer.poisoned.get_or_insert_with(|| error.to_string()).clone();
            return Error::Poisoned { context };
        }
        match error {
            // Nothing was written. Descriptors come back when connections end.
            Error::Io { ref source, .. } if lacks_descriptors(source) => error,
            Error::Io { source, context } if self.is_full() => {
                Error::OutOfSpace { context: format!("{context}: {source}") }
            }
            Error::Io { .. } | Error::Corrupt { .. } | Error::Poisoned { .. } => {
                writer.poisoned.get_or_insert_with(|| error.to_string());
                error
            }
            error => error,
        }
    }

    fn is_full(&self) -> bool {
        let space = rustix::fs::statvfs(&self.directory.path);
        space.is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) < FREE_SPACE_BYTES_MIN)
    }

    /// See [`checkpoint`](crate::checkpoint).
    pub(crate) fn checkpoint(&self) -> Result<Position> {
        let mut pin = self.pin.lock();
        let begin = Instant::now();
        let result = self.checkpoint_at(&mut pin);
        self.counters.checkpoint_ms.fetch_add(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
        // After a success this is the state before, after an error the one that did not become durable.
        pin.spare.reset();
        result
    }

    fn checkpoint_at(&self, pin: &mut Pin) -> Result<Position> {
        let (checkpoint, freed_pages) = {
            let mut writer = self.lock_writer();
            let pinned = self.pin_newest(&mut writer, &mut pin.spare);
            (pinned.map_err(|error| self.judge(&mut writer, error))?, writer.freed_pages)
        };
        if pin.saved.as_ref() == Some(&checkpoint) {
            return Ok(checkpoint.position);
        }
        self.barrier.wait_for_log(checkpoint.position)?;
        if let Err(error) = self.make_durable(&checkpoint) {
            let mut writer = self.lock_writer();
            return Err(self.judge(&mut writer, error));
        }
        let position = checkpoint.position;
        std::mem::swap(&mut pin.txn, &mut pin.spare);
        self.freed_pages_pinned.store(freed_pages, Ordering::Relaxed);
        self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.durable.store(position.0, Ordering::Release);
        pin.saved = Some(checkpoint);
        Ok(position)
    }

    fn pin_newest(&self, writer: &mut WriterState, txn: &mut ReadTxn) -> Result<Checkpoint> {
        if let Some(reason) = &writer.poisoned {
            return Err(Error::Poisoned { context: reason.clone() });
        }
        // Without space for the counts the checkpoint is made all the same: it is what frees space.
        let counted = match self.write_counts(writer).map_err(|error| self.judge(writer, error)) {
            Ok(()) => true,
            Err(Error::OutOfSpace { .. }) => {
                self.counters.uncounted_checkpoints.fetch_add(1, Ordering::Relaxed);
                false
            }
            Err(error) => return Err(error),
        };
        txn.renew()?;
        Checkpoint::of_state(&self.data, self.env.page_bytes(), txn.id(), writer.applied, counted)
    }

    fn write_counts(&self, writer: &mut WriterState) -> Result<()> {
        if writer.uncounted.is_empty() {
            return Ok(());
        }
        let mut edit = Edit::begin(&self.env, writer, None)?;
        edit.put_counts()?;
        edit.commit().map(drop)
    }

    fn make_durable(&self, checkpoint: &Checkpoint) -> Result<()> {
        // A failed sync is final: the kernel may have dropped the pages, and a second sync would not say so.
        self.env.sync().map_err(|error| Error::Poisoned { context: error.to_string() })?;
        checkpoint.save(&self.directory)
    }

    /// Notes what a commit freed and asks for a checkpoint when much waits for one.
    fn watch_freed(&self, writer: &mut WriterState) {
        // Without the number no checkpoint is triggered by it; the commit is valid.
        let _ = writer.count_freed(&self.env);
        self.freed_pages.store(writer.freed_pages, Ordering::Relaxed);
        if self.wants_checkpoint() {
            self.alarm.checkpoint();
        }
    }

    /// Returns true if freed pages that wait for a checkpoint take a large part of the file.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let freed = self.freed_pages.load(Ordering::Relaxed) - self.freed_pages_pinned.load(Ordering::Relaxed);
        let Ok(info) = self.env.info() else { return false };
        let bytes = freed * self.env.page_bytes() as u64;
        bytes > self.options.freed_bytes_max && freed > info.me_last_pgno as u64 / 8
    }
}

fn lacks_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl Edit<'_> {
    /// The content is no longer one that a bulk load fills.
    pub(crate) fn end_load(&mut self, content: Content) -> Result<()> {
        records::delete_loading(&mut self.txn, content)
    }
}
