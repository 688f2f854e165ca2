//! The state that the parts of the engine share: one writer, many readers, concurrent checkpoints.
//!
//! Locks, in the order in which they are taken: `compacting` (manual compactions, one at a time), `flushing` (checkpoints,
//! one at a time), `covered`, `writer` (the writer: a group of batches), `published` (short; taking a snapshot), RocksDB's
//! own. Readers take `published` only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arbor_engine::adapter::BarrierSlot;
use arbor_engine::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

use crate::edit::{Edit, WriterState};
use crate::estimate::Expansion;
use crate::options::{COMPRESSIONS, RocksOptions, find_compression};
use crate::published::{Published, State};
use crate::raw::Db;
use crate::records::{self, Content, StateRecord};
use crate::signals::{Alarm, Compactor};

pub(crate) struct Core {
    pub db: Arc<Db>,
    pub options: RocksOptions,
    writer: Mutex<WriterState>,
    pub published: Arc<Published>,
    pub barrier: BarrierSlot,
    pub flushing: Mutex<()>,
    /// Held while a manual compaction runs.
    pub compacting: Mutex<()>,
    /// Every write waits for the log, so RocksDB may flush by itself.
    pub lawful_flushes: AtomicBool,
    /// Swept contents whose tombstone is to be compacted.
    pub covered: Mutex<Vec<Content>>,
    pub applied: AtomicU64,
    pub durable: AtomicU64,
    /// Generation of the durable state.
    pub flushed_generation: AtomicU64,
    /// Written since the last flush began.
    pub unflushed_bytes: AtomicU64,
    /// Written before that, and in memory until the flush ends.
    pub flushing_bytes: AtomicU64,
    pub last_write_bytes: AtomicU64,
    /// The largest value that was written of late: each flush halves it.
    pub largest_value_bytes: AtomicU64,
    /// At most what `options` says.
    pub memtable_bytes: AtomicU64,
    /// Compression of files that are written now; index into [`COMPRESSIONS`].
    pub compression: AtomicUsize,
    pub expansion: Arc<Expansion>,
    pub counters: Counters,
    pub alarm: Alarm,
    pub compactor: Compactor,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub writes: AtomicU64,
    pub checkpoints: AtomicU64,
    pub checkpoint_ms: AtomicU64,
    pub swept_trees: AtomicU64,
    pub manual_compactions: AtomicU64,
    /// Time that writers were held back.
    pub room_us: AtomicU64,
    pub background_errors: AtomicU64,
}

impl Core {
    pub(crate) fn new(db: Arc<Db>, options: RocksOptions) -> Result<Core> {
        let found = records::state(&db, None)?;
        let state = found.unwrap_or(StateRecord { next_content: 1, ..StateRecord::default() });
        let all = records::all(&db)?;
        if all.updates && options.updates.is_none() {
            let reason = "its tables hold update messages, and the engine rocksdb was opened without their function";
            return Err(Error::CannotOpen { path: db.dir().display().to_string(), reason: reason.to_owned() });
        }
        let trees = Arc::new(all.trees);
        let published = State { generation: state.generation, position: state.applied, trees: trees.clone() };
        let writer = WriterState {
            trees,
            state,
            pending_drops: all.pending_drops.into_iter().map(|content| (content, 0)).collect(),
            pending_range_gc: Vec::new(),
            updates_marked: all.updates,
            dirty: false,
            poisoned: None,
        };
        let (compression, _) = find_compression(&options.compression)?;
        let (memtable_bytes, expansion) = (options.memtable_bytes(), Expansion::of(&db));
        Ok(Core {
            db,
            options,
            writer: Mutex::new(writer),
            published: Arc::new(Published::new(published)),
            barrier: BarrierSlot::default(),
            flushing: Mutex::new(()),
            covered: Mutex::new(Vec::new()),
            applied: AtomicU64::new(state.applied.0),
            durable: AtomicU64::new(state.applied.0),
            flushed_generation: AtomicU64::new(state.generation),
            unflushed_bytes: AtomicU64::new(0),
            flushing_bytes: AtomicU64::new(0),
            last_write_bytes: AtomicU64::new(0),
            largest_value_bytes: AtomicU64::new(0),
            memtable_bytes: AtomicU64::new(memtable_bytes),
            compression: AtomicUsize::new(compression),
            expansion: Arc::new(expansion),
            compacting: Mutex::new(()),
            lawful_flushes: AtomicBool::new(false),
            compactor: Compactor::default(),
            counters: Counters::default(),
            alarm: Alarm::default(),
        })
    }

    /// Marks as dropped what bulk loads left before a crash, known or not (see [`bulk`](crate::bulk)), and makes a new engine's
    /// first state.
    pub(crate) fn clear_unfinished_loads(&self) -> Result<()> {
        let loading = records::all(&self.db)?.loading;
        let last = records::last_content(&self.db)?;
        self.edit(|edit| {
            for content in loading {
                records::delete_loading(&mut edit.batch, content);
                edit.mark_dropped(content);
            }
            while last.is_some_and(|last| last.0 >= edit.state.next_content) {
                let content = edit.new_content();
                edit.mark_dropped(content);
            }
            if edit.state.generation == 1 {
                records::put_state(&mut edit.batch, &edit.state);
            }
            Ok(())
        })
    }

    pub(crate) fn lock_writer(&self) -> MutexGuard<'_, WriterState> {
        // The writer changes only after a write, in steps that do not panic.
        self.writer.lock()
    }

    /// Makes one write. After an error nothing of it is applied; an error of the change itself leaves the engine usable.
    pub(crate) fn edit<T>(&self, change: impl FnOnce(&mut Edit<'_>) -> Result<T>) -> Result<T> {
        if self.memtables_bytes() > self.unflushed_bytes_max() {
            self.checkpoint()?;
        }
        let mut writer = self.lock_writer();
        let mut edit = Edit::begin(&self.db, &writer, self.options.updates.is_some())?;
        let answer = change(&mut edit)?;
        if edit.is_empty() {
            return Ok(answer);
        }
        let (batch, outcome) = edit.finish();
        let StateRecord { generation, applied: position, .. } = outcome.state;
        // Near the size at which RocksDB flushes by itself, after which that is lawful: see `checkpoint.rs`.
        let filled = self.unflushed_bytes.load(Ordering::Relaxed) + batch.bytes;
        if filled > self.options.write_buffer_bytes() / 2 || self.lawful_flushes.load(Ordering::SeqCst) {
            self.wait_for_log(position)?;
        }
        self.published.announce(State { generation, position, trees: outcome.trees.clone() });
        let written = self.db.write(&batch);
        self.published.settle(written.is_ok());
        written.map_err(|error| self.judge(&mut writer, error))?;
        let gone = !(outcome.pending_drops.is_empty() && outcome.pending_range_gc.is_empty());
        writer.take(outcome);
        self.applied.store(position.0, Ordering::Release);
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.unflushed_bytes.fetch_add(batch.bytes, Ordering::Relaxed);
        self.last_write_bytes.store(batch.bytes, Ordering::Relaxed);
        self.largest_value_bytes.fetch_max(batch.largest, Ordering::Relaxed);
        if gone || self.wants_checkpoint() {
            self.alarm.ring();
        }
        Ok(answer)
    }

    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.unflushed_bytes.load(Ordering::Relaxed) > self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all memtables.
    pub(crate) fn memtables_bytes(&self) -> u64 {
        self.unflushed_bytes.load(Ordering::Relaxed) + self.flushing_bytes.load(Ordering::Relaxed)
    }

    /// From here on writers wait for a checkpoint.
    pub(crate) fn unflushed_bytes_max(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed).saturating_mul(self.options.memtables_max)
    }

    pub(crate) fn compression_name(&self) -> &'static str {
        COMPRESSIONS.get(self.compression.load(Ordering::Relaxed)).expect("an index into COMPRESSIONS").name
    }

    /// Classifies a failed write or flush: no space, or the end of writing.
    pub(crate) fn judge(&self, writer: &mut WriterState, error: Error) -> Error {
        if !matches!(error, Error::OutOfSpace { .. }) {
            writer.poisoned.get_or_insert_with(|| error.to_string());
        }
        error
    }
}
