//! The engine: opening, and the trait of engines over [`Core`].

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::{Position, TreeId};
use arbor_engine::{Barrier, Batch, Capabilities, Engine, EngineStats, Error, Result, Snapshot, TreeStats};

use crate::checkpoint::Checkpoint;
use crate::core::Core;
use crate::directory::{Directory, Found};
use crate::files::{DATA_FILE, io_error};
use crate::raw::{Env, EnvOptions};
use crate::snapshot::LmdbSnapshot;
use crate::sweep::Sweeper;
use crate::verify::verify_pages;
use crate::{LmdbOptions, bulk, estimate};

const MAP_BYTES_MIN: usize = 1 << 30;

/// The LMDB engine. Dropping it keeps the state of its last checkpoint.
pub struct LmdbEngine {
    core: Arc<Core>,
    /// Stops and joins its thread when dropped.
    _sweeper: Option<Sweeper>,
}

impl LmdbEngine {
    /// Opens or makes the engine in a directory, in the state of its last checkpoint.
    pub fn open(dir: &Path, options: LmdbOptions) -> Result<LmdbEngine> {
        let directory = Directory::open(dir)?;
        let found = directory.prepare()?;
        let checkpoint = match found {
            Found::New => None,
            Found::Engine => Some(Checkpoint::load(dir)?),
        };
        if let Some(checkpoint) = &checkpoint {
            let data = File::open(dir.join(DATA_FILE)).map_err(|e| io_error("open data.mdb", e))?;
            verify_pages(&data, checkpoint, options.verified_pages_max)?;
            checkpoint.restore(dir)?;
        }
        let env_options = EnvOptions {
            map_bytes: options.map_bytes,
            map_bytes_min: MAP_BYTES_MIN,
            readers_max: options.readers_max,
            readahead: options.readahead,
        };
        let env = Arc::new(Env::open(dir, &env_options, &directory.lock)?);
        let background = options.background;
        let core = Arc::new(match checkpoint {
            None => Core::create(env, options, directory)?,
            Some(checkpoint) => Core::reopen(env, options, directory, checkpoint)?,
        });
        let sweeper = background.then(|| Sweeper::start(&core)).transpose()?;
        Ok(LmdbEngine { core, _sweeper: sweeper })
    }

    /// Deletes the rows of dropped trees, to the end. The background thread does the same step by step.
    pub fn sweep(&self) -> Result<()> {
        while self.core.sweep_step()? {}
        Ok(())
    }
}

impl Engine for LmdbEngine {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn applied(&self) -> Position {
        Position(self.core.applied.load(Ordering::Acquire))
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.core.edit(|edit| batches.iter().try_for_each(|batch| edit.apply(batch)))
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(LmdbSnapshot::new(&self.core.readers, &self.core.positions)?))
    }

    fn checkpoint(&self) -> Result<Position> {
        self.core.checkpoint()
    }

    fn set_barrier(&self, barrier: Barrier) {
        self.core.barrier.set(barrier);
    }

    fn durable(&self) -> Position {
        Position(self.core.durable.load(Ordering::Acquire))
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        bulk::load(&self.core, tree, rows)
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        let mut trees: Vec<TreeId> = self.core.lock_writer().trees.keys().copied().collect();
        trees.sort_unstable();
        Ok(trees)
    }

    fn stats(&self) -> Result<EngineStats> {
        let core = &self.core;
        let (stat, info) = (core.env.stat()?, core.env.info()?);
        let file =
            core.data.metadata().map_err(|source| Error::Io { context: "size of data.mdb".to_owned(), source })?;
        let free_pages = core.readers.reader()?.txn().free_pages()?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = vec![
            ("trees", core.lock_writer().trees.len() as u64),
            ("page bytes", u64::from(stat.ms_psize)),
            ("entries", stat.ms_entries as u64),
            ("tree depth", u64::from(stat.ms_depth)),
            ("branch pages", stat.ms_branch_pages as u64),
            ("leaf pages", stat.ms_leaf_pages as u64),
            ("overflow pages", stat.ms_overflow_pages as u64),
            ("free pages", free_pages),
            ("pages freed since checkpoint", count(&core.freed_pages) - count(&core.freed_pages_pinned)),
            ("file pages", info.me_last_pgno as u64 + 1),
            ("map bytes", info.me_mapsize as u64),
            ("reader slots used", u64::from(info.me_numreaders)),
            ("commits", count(&core.counters.commits)),
            ("checkpoints", count(&core.counters.checkpoints)),
            ("checkpoint ms", count(&core.counters.checkpoint_ms)),
            ("checkpoints without counts", count(&core.counters.uncounted_checkpoints)),
            ("swept rows", count(&core.counters.swept_rows)),
            ("background errors", count(&core.counters.background_errors)),
        ];
        let free_bytes = free_pages * u64::from(stat.ms_psize);
        // What the kernel caches of the file is not known to the engine.
        Ok(EngineStats { disk_bytes: file.blocks() * 512, free_bytes, cache_bytes: 0, counters })
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        let record = self.core.lock_writer().trees.get(&tree).copied().ok_or(Error::UnknownTree(tree))?;
        let pages = estimate::pages(&self.core.readers.reader()?, record.content)?;
        // by estimate, which should not say less than there is
        let disk_bytes = (pages * self.core.env.page_bytes() as u64).max(record.bytes);
        Ok(TreeStats { keys: record.keys, data_bytes: record.bytes, disk_bytes, free_bytes: disk_bytes - record.bytes })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            update_messages: self.core.options.updates.is_some(),
            exact_counts: true,
            held_snapshots_keep_space: true,
            held_snapshot_bytes_max: None,
            cheap_range_delete: false,
            compression: &[],
        }
    }
}
