//! The engine: one writer, many readers, checkpoints beside them.
//!
//! Locks, in the order in which they are taken: `flushing` (checkpoints, one at a time), `covered`, `book` (the writer: a
//! group of batches), `published` (short; taking a snapshot), RocksDB's own. Readers take `published` only.

use std::collections::HashMap;
use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arbor_base::{Position, TreeId};
use arbor_engine::{
    Barrier, Batch, Capabilities, Engine, EngineStats, Error, Result, Snapshot, TreeOptions, TreeStats,
};

use crate::edit::{Book, Edit};
use crate::options::{COMPRESSIONS, RocksOptions, check_tree_options};
use crate::published::{Published, State};
use crate::raw::Db;
use crate::records::{self, Content, StateRecord};
use crate::snapshot::RocksSnapshot;
use crate::sweep::{Alarm, Flusher};
use crate::{bulk, folder};

/// From this multiple of `memtable_bytes` on the writer makes the checkpoint itself.
const MEMTABLES_MAX: u64 = 4;

/// RocksDB's figures that `stats` shows, by the names that they have there.
const FIGURES: &[(&str, &CStr)] = &[
    ("memtable_bytes", c"rocksdb.cur-size-all-mem-tables"),
    ("pending_compaction_bytes", c"rocksdb.estimate-pending-compaction-bytes"),
    ("running_compactions", c"rocksdb.num-running-compactions"),
    ("running_flushes", c"rocksdb.num-running-flushes"),
    ("table_reader_bytes", c"rocksdb.estimate-table-readers-mem"),
    ("background_errors", c"rocksdb.background-errors"),
    ("held_snapshots", c"rocksdb.num-snapshots"),
    ("write_stopped", c"rocksdb.is-write-stopped"),
];

/// The RocksDB engine. Dropping it keeps the state of its last checkpoint.
pub struct RocksEngine {
    core: Arc<Core>,
    /// Stops and joins its thread when dropped.
    _flusher: Flusher,
}

pub(crate) struct Core {
    pub db: Arc<Db>,
    pub options: RocksOptions,
    book: Mutex<Book>,
    pub published: Arc<Published>,
    pub barrier: Mutex<Option<Barrier>>,
    pub flushing: Mutex<()>,
    /// Swept contents whose tombstone is to be compacted.
    pub covered: Mutex<Vec<Content>>,
    pub applied: AtomicU64,
    pub durable: AtomicU64,
    /// Generation of the durable state.
    pub flushed_generation: AtomicU64,
    /// Written since the last flush began.
    pub unflushed_bytes: AtomicU64,
    pub counters: Counters,
    pub alarm: Alarm,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub writes: AtomicU64,
    pub checkpoints: AtomicU64,
    pub checkpoint_ms: AtomicU64,
    pub swept_trees: AtomicU64,
    pub background_errors: AtomicU64,
}

impl RocksEngine {
    /// Opens or makes the engine in a folder, in the state of its last checkpoint.
    pub fn open(dir: &Path, options: RocksOptions) -> Result<RocksEngine> {
        folder::prepare(dir)?;
        let db = Arc::new(Db::open(dir, &options)?);
        folder::remove_load_files(dir)?;
        let core = Arc::new(Core::new(db, options)?);
        core.clear_unfinished_loads()?;
        let flusher = Flusher::start(&core)?;
        Ok(RocksEngine { core, _flusher: flusher })
    }
}

impl Core {
    fn new(db: Arc<Db>, options: RocksOptions) -> Result<Core> {
        let found = records::state(&db, None)?;
        let state = found.unwrap_or(StateRecord { next_content: 1, ..StateRecord::default() });
        let all = records::all(&db)?;
        let contents: HashMap<_, _> = all.trees.iter().map(|(tree, record)| (*tree, record.content)).collect();
        let contents = Arc::new(contents);
        let published = State { generation: state.generation, position: state.applied, trees: contents.clone() };
        let book = Book {
            trees: all.trees.into_iter().collect(),
            contents,
            state,
            doomed: all.doomed.into_iter().map(|content| (content, 0)).collect(),
            dirty: false,
            poisoned: None,
        };
        Ok(Core {
            db,
            options,
            book: Mutex::new(book),
            published: Arc::new(Published::new(published)),
            barrier: Mutex::new(None),
            flushing: Mutex::new(()),
            covered: Mutex::new(Vec::new()),
            applied: AtomicU64::new(state.applied.0),
            durable: AtomicU64::new(state.applied.0),
            flushed_generation: AtomicU64::new(state.generation),
            unflushed_bytes: AtomicU64::new(0),
            counters: Counters::default(),
            alarm: Alarm::default(),
        })
    }

    /// Dooms what bulk loads left before a crash, known or not (see [`bulk`](crate::bulk)), and makes a new engine's
    /// first state.
    fn clear_unfinished_loads(&self) -> Result<()> {
        let loading = records::all(&self.db)?.loading;
        let last = records::last_content(&self.db)?;
        self.edit(|edit| {
            for content in loading {
                records::delete_loading(&mut edit.batch, content);
                edit.doom(content);
            }
            while last.is_some_and(|last| last.0 >= edit.state.next_content) {
                let content = edit.new_content();
                edit.doom(content);
            }
            if edit.state.generation == 1 {
                records::put_state(&mut edit.batch, &edit.state);
            }
            Ok(())
        })
    }

    pub fn lock_book(&self) -> MutexGuard<'_, Book> {
        // The book changes only after a write, in steps that do not panic.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one write. After an error nothing of it is applied; an error of the change itself leaves the engine usable.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Edit<'_>) -> Result<T>) -> Result<T> {
        if self.unflushed_bytes.load(Ordering::Relaxed) > self.options.memtable_bytes.saturating_mul(MEMTABLES_MAX) {
            self.checkpoint()?;
        }
        let mut book = self.lock_book();
        let mut edit = Edit::begin(&self.db, &book, self.options.exact_counts)?;
        let answer = change(&mut edit)?;
        if edit.is_empty() {
            return Ok(answer);
        }
        let (batch, outcome) = edit.finish();
        let StateRecord { generation, applied: position, .. } = outcome.state;
        // Near the size at which RocksDB flushes by itself, after which that is lawful: see `checkpoint.rs`.
        if self.unflushed_bytes.load(Ordering::Relaxed) + batch.bytes > self.options.write_buffer_bytes() / 2 {
            self.wait_for_log(position)?;
        }
        self.published.announce(State { generation, position, trees: outcome.contents.clone() });
        let written = self.db.write(&batch);
        self.published.settle(written.is_ok());
        written.map_err(|error| self.judge(&mut book, error))?;
        book.take(outcome);
        self.applied.store(position.0, Ordering::Release);
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.unflushed_bytes.fetch_add(batch.bytes, Ordering::Relaxed);
        if self.wants_checkpoint() {
            self.alarm.checkpoint();
        }
        Ok(answer)
    }

    pub fn wants_checkpoint(&self) -> bool {
        self.unflushed_bytes.load(Ordering::Relaxed) > self.options.memtable_bytes
    }

    /// What a failed write or flush means: no space, or the end of writing.
    pub fn judge(&self, book: &mut Book, error: Error) -> Error {
        if !matches!(error, Error::OutOfSpace { .. }) {
            book.poisoned.get_or_insert_with(|| error.to_string());
        }
        error
    }
}

impl Engine for RocksEngine {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn applied(&self) -> Position {
        Position(self.core.applied.load(Ordering::Acquire))
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.core.edit(|edit| batches.iter().try_for_each(|batch| edit.apply(batch)))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(RocksSnapshot::new(&self.core.db, &self.core.published)?))
    }

    fn checkpoint(&self) -> Result<Position> {
        self.core.checkpoint()
    }

    fn set_barrier(&self, barrier: Barrier) {
        *self.core.barrier.lock().unwrap_or_else(PoisonError::into_inner) = Some(barrier);
    }

    fn durable(&self) -> Position {
        Position(self.core.durable.load(Ordering::Acquire))
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        bulk::load(&self.core, tree, rows)
    }

    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        check_tree_options(options)
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        let mut trees: Vec<TreeId> = self.core.lock_book().trees.keys().copied().collect();
        trees.sort_unstable();
        Ok(trees)
    }

    fn stats(&self) -> Result<EngineStats> {
        let core = &self.core;
        let own = [
            ("trees", core.lock_book().trees.len() as u64),
            ("unflushed_bytes", core.unflushed_bytes.load(Ordering::Relaxed)),
            ("writes", core.counters.writes.load(Ordering::Relaxed)),
            ("checkpoints", core.counters.checkpoints.load(Ordering::Relaxed)),
            ("checkpoint_ms", core.counters.checkpoint_ms.load(Ordering::Relaxed)),
            ("swept_trees", core.counters.swept_trees.load(Ordering::Relaxed)),
            ("checkpoint_errors", core.counters.background_errors.load(Ordering::Relaxed)),
        ];
        let figures = FIGURES.iter().map(|(name, figure)| (*name, core.db.figure(figure)));
        let total = core.db.figure(c"rocksdb.total-sst-files-size");
        Ok(EngineStats {
            disk_bytes: total,
            // Files of old versions that snapshots or iterators still hold.
            free_bytes: total.saturating_sub(core.db.figure(c"rocksdb.live-sst-files-size")),
            cache_bytes: core.db.cache_bytes() + core.db.figure(c"rocksdb.cur-size-all-mem-tables"),
            counters: own.into_iter().chain(figures).collect(),
        })
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        let record = self.core.lock_book().trees.get(&tree).copied().ok_or(Error::UnknownTree(tree))?;
        let disk_bytes = self.core.db.file_bytes(&record.content.prefix(), &record.content.end())?;
        if !self.core.options.exact_counts {
            let whole = self.snapshot()?.estimate(tree, &[], None)?;
            return Ok(TreeStats { keys: whole.keys, data_bytes: whole.bytes, disk_bytes, free_bytes: 0 });
        }
        Ok(TreeStats { keys: record.keys, data_bytes: record.bytes, disk_bytes, free_bytes: 0 })
    }

    fn capabilities(&self) -> Capabilities {
        // For exact counts a range delete reads what it deletes.
        let exact_counts = self.core.options.exact_counts;
        Capabilities {
            update_messages: false,
            exact_counts,
            cheap_range_delete: !exact_counts,
            compression: COMPRESSIONS,
        }
    }
}
