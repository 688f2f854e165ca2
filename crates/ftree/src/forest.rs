//! The forest as an engine: opening, applying, checkpoints.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use arbor_base::{Position, Prefetch, TreeId, sometimes};
use arbor_engine::{
    Barrier, Batch, Capabilities, Cursor, Engine, EngineStats, Snapshot, TreeOptions, TreeStats, UpdateFunction, limits,
};
use parking_lot::Mutex;

use crate::checkpoint::{self, Captured, CapturedTree};
use crate::core::{Core, Dropped};
use crate::counters::Counter;
use crate::flush::backlog::Backlog;
use crate::generation::Writer;
use crate::health::Health;
use crate::memtable::Memtable;
use crate::read::{Handles, Reader, TreeCursor, prefetch};
use crate::settings::settings_of;
use crate::snapshots::Snapshots;
use crate::tree::Tree;
use crate::trees::Trees;
use crate::work::state::Work;
use crate::{Error, Options, Result, Seq, TreeSettings, apply, bulk};

/// The least budget that may be set while the forest is open.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// An open forest. Dropping it stops the background work; what no checkpoint made durable is in the log.
pub struct Forest {
    core: Arc<Core>,
    handles: Handles,
    threads: Vec<JoinHandle<()>>,
}

impl Forest {
    pub const NAME: &str = "ftree";

    /// Opens the forest in a directory, making a new one if there is none.
    pub fn open(dir: &Path, options: Options) -> Result<Forest> {
        let checkpoint::Opened { lock, io, recovered } = checkpoint::open(&options, dir)?;
        let no_part = Memtable::new(0).part(TreeId(0));
        let trees = Trees::default();
        for CapturedTree { id, created, settings, root, .. } in recovered.trees {
            trees.add(Arc::new(Tree::new(id, created, settings, root, no_part.clone(), &io.cache)));
        }
        assert!(recovered.checkpoints.durable() == recovered.applied, "what is opened is what is durable");
        let writer = Writer::new(options.memtable_bytes, recovered.applied, &io.cache);
        let core = Arc::new(Core {
            io,
            trees,
            snapshots: Snapshots::new(),
            visible: AtomicU64::new(recovered.applied.0),
            writer: Mutex::new(writer),
            backlog: Backlog::new(recovered.applied),
            work: Work::of(options.threads),
            health: Health::default(),
            buffered: Mutex::default(),
            dropped: Dropped::default(),
            checkpoints: recovered.checkpoints,
            returns_space: AtomicBool::new(false),
            no_part,
            installs: AtomicU64::new(0),
            captured_installs: AtomicU64::new(0),
            checkpoint_failed: AtomicBool::new(false),
            checkpoint_interval_ms: AtomicU64::new(options.checkpoint_interval_ms),
            checkpointed_bytes: AtomicU64::new(0),
            options,
            _lock: lock,
        });
        core.health.damaged.fetch_add(recovered.damage.len() as u64, Ordering::Relaxed);
        for tree in core.trees.all() {
            core.plan_tree(&tree);
            core.note_buffered(&tree);
            core.note_debt(&tree);
        }
        let threads = start_threads(&core)?;
        Ok(Forest { handles: Handles::new(&core), core, threads })
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

fn start_threads(core: &Arc<Core>) -> Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    let start = |name: String, run: fn(&Core)| {
        let core = core.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || run(&core));
        thread.map_err(|source| Error::Io { context: "starting a background thread".to_owned(), source })
    };
    for number in 0..core.options.threads {
        threads.push(start(format!("ftree-{number}"), Core::work_until_stopped)?);
    }
    if core.options.threads > 0 {
        threads.push(start("ftree-maintain".to_owned(), Core::maintain_until_stopped)?);
    }
    Ok(threads)
}

impl Drop for Forest {
    fn drop(&mut self) {
        self.core.work.scheduler.stop();
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Core {
    /// Ends the memtable that is being filled, so that everything visible now can be absorbed. Returns up to where that is.
    pub(crate) fn freeze(&self) -> Seq {
        let mut writer = self.writer();
        let visible = self.visible();
        if visible > writer.frozen {
            let generation = writer.freeze(self);
            self.backlog.add(generation);
        }
        visible
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.health.check()?;
        let applied = self.visible().position();
        let fresh: Vec<&Batch> = batches.iter().filter(|batch| batch.position > applied).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        apply::check(self, &fresh)?;
        let bytes = fresh.iter().copied().map(apply::bytes_of).sum();
        self.admit(fresh.iter().copied().all(apply::only_frees))?;
        self.take(&fresh);
        self.work.unpaced.fetch_add(bytes, Ordering::Relaxed);
        self.io.counters.add(Counter::AppliedBytes, bytes);
        if self.options.threads == 0 {
            self.run_due();
            self.maintain_once();
        }
        Ok(())
    }

    pub(crate) fn take(&self, batches: &[&Batch]) {
        let mut writer = self.writer();
        for batch in batches {
            writer.take(self, batch);
            self.visible.store(Seq::of(batch.position).0, Ordering::Release);
            if writer.filling.memtable.bytes() >= self.options.memtable_bytes {
                let generation = writer.freeze(self);
                self.backlog.add(generation);
                self.work.scheduler.absorb();
            }
        }
    }

    /// Makes what is applied now durable.
    pub(crate) fn checkpoint(&self) -> Result<Seq> {
        if self.checkpoint_failed.swap(false, Ordering::Relaxed) {
            // What was captured then is not durable: it is not passed over as unchanged.
            self.captured_installs.store(u64::MAX, Ordering::Relaxed);
        }
        self.checkpoint_of(|| self.absorb_all())
    }

    /// Makes what is absorbed durable, and more if there is space for it: what only the state before holds becomes free.
    pub(crate) fn checkpoint_of_absorbed(&self) -> Result<Seq> {
        self.checkpoint_of(|| {
            self.freeze();
            let freed = self.backlog.turn().absorb_freeing(self);
            if let Err(error) = freed.and_then(|_| self.absorb_all()) {
                self.health.note(&error, None);
            }
            Ok(())
        })
    }

    fn checkpoint_of(&self, prepare: impl FnOnce() -> Result<()>) -> Result<Seq> {
        self.health.check()?;
        let before = self.checkpoints.durable();
        self.returns_space.store(false, Ordering::Relaxed);
        let done = self.checkpoints.run(|| {
            prepare()?;
            self.capture()
        });
        if done.as_ref().is_ok_and(|durable| *durable < self.visible()) {
            sometimes!("ftree: batches are applied during a checkpoint");
        }
        self.checkpoint_failed.fetch_or(done.is_err(), Ordering::Relaxed);
        match &done {
            Ok(durable) if *durable > before && self.backlog.is_empty() => self.health.found_space(),
            Err(error @ (Error::Io { .. } | Error::Poisoned { .. } | Error::OutOfSpace { .. })) => {
                self.health.note(error, None);
            }
            _ => {}
        }
        self.reap();
        done
    }

    /// Absorbs all that is applied now.
    pub(crate) fn absorb_all(&self) -> Result<()> {
        let target = self.freeze();
        let turn = self.backlog.turn();
        while self.backlog.absorbed() < target && turn.absorb_one(self)?.is_some() {}
        assert!(self.backlog.absorbed() >= target, "B2: all up to {target:?} was frozen, and is absorbed");
        Ok(())
    }

    /// The state that a checkpoint makes durable: all that is absorbed now. `None`: the last one holds the same.
    fn capture(&self) -> Result<Option<Captured>> {
        let _turn = self.backlog.turn();
        let (applied, installs) = (self.backlog.absorbed(), self.installs.load(Ordering::Relaxed));
        assert!(self.checkpoints.durable() <= applied && applied <= self.visible(), "durable <= absorbed <= visible");
        let before = self.captured_installs.swap(installs, Ordering::Relaxed);
        if applied == self.checkpoints.durable() && installs == before {
            return Ok(None);
        }
        let trees = self.trees.all_at(applied).iter().map(captured).collect();
        Ok(Some(Captured { applied, trees }))
    }

    fn reader(&self, at: Seq) -> Reader<'_> {
        let updates: Option<&dyn UpdateFunction> = self.options.updates.as_deref();
        Reader { io: &self.io, updates, at, snapshots: &self.snapshots, visible: &self.visible }
    }

    /// Returns true if a tree has no rows now.
    fn is_empty(&self, tree: &Arc<Tree>) -> Result<bool> {
        let registered = self.snapshots.register(&self.visible);
        Ok(!TreeCursor::new(self.reader(registered.seq()), tree.clone()).first()?)
    }

    /// The rows become a new incarnation of the tree, as of a number between two batches.
    fn bulk_load(&self, id: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.health.check()?;
        let tree = self.trees.alive(id).ok_or(Error::UnknownTree(id))?;
        limits::check_empty(id, u64::from(!self.is_empty(&tree)?))?;
        let settings = tree.settings.load_full();
        let loaded = bulk::load(&self.io, id, &settings, rows)?;
        let mut writer = self.writer();
        if !tree.is_alive() {
            return Err(Error::UnknownTree(id));
        }
        limits::check_empty(id, u64::from(!self.is_empty(&tree)?))?;
        let too_many = || Error::Other("too many bulk loads behind one batch".to_owned());
        let visible = self.visible();
        // Beyond 255 loads they share the last number. Who has taken a snapshot since then may find a tree filled that was empty, and
        // nothing refers to a tree before all of its load is done.
        let shared = || (tree.created < visible).then_some(visible);
        let seq = visible.next_bulk().or_else(shared).ok_or_else(too_many)?;
        assert!(loaded.root.totals().newest == Seq::ZERO, "loaded rows are visible to all readers of the incarnation");
        assert!(tree.created < seq, "the new incarnation begins after the empty one");
        let settings = TreeSettings::clone(&tree.settings.load());
        let full = Tree::new(id, seq, settings, loaded.root, self.no_part.clone(), &self.io.cache);
        tree.dropped.store(seq.0, Ordering::Release);
        self.trees.add(Arc::new(full));
        self.dropped.add(tree);
        writer.forget_part();
        self.visible.store(seq.0, Ordering::Release);
        self.installed();
        Ok(())
    }

    fn tree_stats(&self, id: TreeId) -> Result<TreeStats> {
        let tree = self.trees.alive(id).ok_or(Error::UnknownTree(id))?;
        let version = tree.version.load_full();
        let totals = version.root.totals();
        let parts = version.frozen.iter().chain([&version.active]);
        let (entries, bytes) = parts.fold((0, 0), |sum, part| (sum.0 + part.entries() as u64, sum.1 + part.bytes()));
        Ok(TreeStats {
            keys: totals.rows + totals.messages + entries,
            data_bytes: totals.bytes + totals.buffered_bytes + bytes,
            disk_bytes: totals.disk_bytes,
            free_bytes: 0,
        })
    }
}

fn captured(tree: &Arc<Tree>) -> CapturedTree {
    let root = tree.root();
    let totals = root.totals();
    CapturedTree {
        id: tree.id,
        created: tree.created,
        settings: TreeSettings::clone(&tree.settings.load()),
        root,
        rows: totals.rows,
        bytes: totals.bytes,
    }
}

impl Engine for Forest {
    fn name(&self) -> &'static str {
        Forest::NAME
    }

    fn applied(&self) -> Position {
        self.core.visible().position()
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        self.core.apply(batches)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(self.handles.snapshot()))
    }

    fn checkpoint(&self) -> Result<Position> {
        self.core.checkpoint().map(Seq::position)
    }

    fn set_barrier(&self, barrier: Barrier) {
        self.core.checkpoints.set_barrier(barrier);
    }

    fn durable(&self) -> Position {
        self.core.checkpoints.durable().position()
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.core.bulk_load(tree, rows)
    }

    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        settings_of(options, &self.core.options.tree).map(drop)
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        let mut trees: Vec<TreeId> =
            self.core.trees.all().iter().filter(|tree| tree.is_alive()).map(|tree| tree.id).collect();
        trees.sort_unstable();
        Ok(trees)
    }

    fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.core.compact(tree, stop)
    }

    fn prefetch(&self, tree: TreeId, key: &[u8]) -> Prefetch {
        let now = Seq(self.core.visible.load(Ordering::Relaxed));
        let start = |tree: &Arc<Tree>| prefetch(&tree.version.load(), key, &self.core.io);
        self.core.trees.with(tree, now, start).unwrap_or(Prefetch::Unknown)
    }

    fn wait_for_room(&self) {
        self.core.wait_for_room();
    }

    /// `cacheBytes`: the one memory budget. Less is reached by and by, as readers let go of what they hold.
    fn set_parameter(&self, name: &str, value: &str) -> Result<()> {
        let invalid = |reason: String| Error::InvalidOption { name: name.to_owned(), reason };
        match (name, value.parse::<u64>()) {
            ("cacheBytes", Ok(bytes)) if bytes >= MEMORY_BYTES_MIN => {
                self.core.io.cache.set_limit(bytes);
                Ok(())
            }
            ("checkpointIntervalMs", Ok(interval)) => {
                self.core.checkpoint_interval_ms.store(interval, Ordering::Relaxed);
                Ok(())
            }
            ("checkpointIntervalMs", Err(_)) => Err(invalid(format!("'{value}' is not a number of milliseconds"))),
            ("cacheBytes", _) => Err(invalid(format!("'{value}' is not a number of bytes from {MEMORY_BYTES_MIN}"))),
            _ => Err(invalid("the engine ftree cannot change it while it runs".to_owned())),
        }
    }

    fn parameter(&self, name: &str) -> Option<String> {
        match name {
            "cacheBytes" => Some(self.core.io.cache.limit().to_string()),
            "cacheUsedBytes" => Some(self.core.io.cache.used().to_string()),
            "checkpointIntervalMs" => Some(self.core.checkpoint_interval_ms.load(Ordering::Relaxed).to_string()),
            _ => None,
        }
    }

    fn stats(&self) -> Result<EngineStats> {
        let core = &self.core;
        Ok(EngineStats {
            disk_bytes: core.io.space.file_bytes(),
            free_bytes: core.io.space.free_bytes(),
            cache_bytes: core.io.cache.used(),
            counters: core.statistics(),
        })
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        self.core.tree_stats(tree)
    }

    fn validate(&self) {
        self.core.validate();
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            update_messages: self.core.options.updates.is_some(),
            exact_counts: false,
            held_snapshots_keep_space: false,
            held_snapshot_bytes_max: None,
            cheap_range_delete: true,
            compression: &["none", "lz4", "zstd"],
        }
    }
}
