//! The forest as an engine: what is shared, opening, applying, checkpoints.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use arbor_base::{Position, TreeId};
use arbor_disk::Lock;
use arbor_engine::{
    Barrier, Batch, Capabilities, Cursor, Engine, EngineStats, Snapshot, TreeOptions, TreeStats, UpdateFunction, limits,
};

use crate::apply::{self, Writer};
use crate::checkpoint::{self, Captured, CapturedTree, Checkpoints};
use crate::counters::Counter;
use crate::flush::absorb::Backlog;
use crate::health::Health;
use crate::io::Io;
use crate::memtable::{MemTree, Memtable};
use crate::read::{Handles, Reader, TreeCursor};
use crate::settings::settings_of;
use crate::snapshots::Snapshots;
use crate::tree::Tree;
use crate::trees::Trees;
use crate::work::Work;
use crate::{Error, Options, Result, Seq, TreeSettings, bulk};

/// The least budget that may be set while the forest is open.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// An open forest. Dropping it stops the background work; what no checkpoint made durable is in the log.
pub struct Forest {
    core: Arc<Core>,
    handles: Handles,
    threads: Vec<JoinHandle<()>>,
}

/// What all threads and snapshots of a forest share.
pub struct Core {
    pub options: Options,
    pub io: Arc<Io>,
    pub trees: Trees,
    pub snapshots: Snapshots,
    /// [`Seq`] of the newest batch or bulk load that readers see.
    pub visible: AtomicU64,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) backlog: Backlog,
    pub(crate) work: Work,
    pub(crate) health: Health,
    pub(crate) dropped: Dropped,
    /// Trees that got messages and were not found without any since, by serial number.
    buffered: Mutex<HashMap<u64, Arc<Tree>>>,
    pub(crate) checkpoints: Checkpoints,
    /// Much was deleted at once: the next checkpoint gives its space back.
    pub(crate) returns_space: AtomicBool,
    /// Where trees have their active part while nothing is written to them.
    pub(crate) no_part: Arc<MemTree>,
    /// Changes of roots since opening, and at the last checkpoint.
    installs: AtomicU64,
    captured_installs: AtomicU64,
    /// A checkpoint failed since the last one that was asked for or due. What is tried again and again on a full disk does not
    /// look at it: each try takes space.
    checkpoint_failed: AtomicBool,
    /// 0: checkpoints begin by bytes alone.
    pub(crate) checkpoint_interval_ms: AtomicU64,
    /// Bytes absorbed since opening when the last checkpoint began by itself.
    pub(crate) checkpointed_bytes: AtomicU64,
    /// Goes last: the folder is ours as long as a snapshot reads from it.
    _lock: Box<dyn Lock>,
}

/// Incarnations that were dropped and that some reader may still see.
#[derive(Default)]
pub(crate) struct Dropped {
    list: Mutex<Vec<Arc<Tree>>>,
}

impl Dropped {
    pub fn add(&self, tree: Arc<Tree>) {
        self.lock().push(tree);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Tree>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forest {
    pub const NAME: &str = "ftree";

    /// Opens the forest in a folder, making a new one if there is none.
    pub fn open(dir: &Path, options: Options) -> Result<Forest> {
        let checkpoint::Opened { lock, io, recovered } = checkpoint::open(&options, dir)?;
        let no_part = Memtable::new(0).part(TreeId(0));
        let trees = Trees::default();
        for CapturedTree { id, created, settings, root, .. } in recovered.trees {
            trees.add(Arc::new(Tree::new(id, created, settings, root, no_part.clone(), &io.cache)));
        }
        let writer = Writer::new(options.memtable_bytes, recovered.applied, &io.cache);
        let core = Arc::new(Core {
            io,
            trees,
            snapshots: Snapshots::new(),
            visible: AtomicU64::new(recovered.applied.0),
            writer: Mutex::new(writer),
            backlog: Backlog::new(recovered.applied),
            work: Work::default(),
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
        threads.push(start("ftree-keeper".to_owned(), Core::keep_until_stopped)?);
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
    pub fn visible(&self) -> Seq {
        Seq(self.visible.load(Ordering::Acquire))
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody sees the tree any more, neither a snapshot nor who recovers to `at` or later.
    pub(crate) fn is_unseen(&self, tree: &Tree, at: Seq) -> bool {
        let dropped = tree.dropped();
        dropped <= at && dropped <= self.visible() && self.snapshots.oldest().is_none_or(|oldest| oldest >= dropped)
    }

    /// Lets go of trees that nobody sees. Their content goes with the last checkpoint that holds them.
    pub(crate) fn reap(&self) {
        let absorbed = self.backlog.absorbed();
        let gone: Vec<Arc<Tree>> = self.dropped.lock().extract_if(.., |tree| self.is_unseen(tree, absorbed)).collect();
        if !gone.is_empty() {
            let mut buffered = self.buffered.lock().unwrap_or_else(PoisonError::into_inner);
            gone.iter().for_each(|tree| drop(buffered.remove(&tree.serial)));
            drop(buffered);
            gone.iter().for_each(|tree| self.trees.remove(tree));
            drop(gone);
            // What could not be given back now is tried again after the next checkpoint.
            let _ = self.io.space.give_back(&self.io.file);
        }
    }

    /// All or much of this tree is deleted.
    pub(crate) fn deletes(&self, tree: &Tree) {
        const WORTH_A_CHECKPOINT: u64 = 1 << 20;
        if tree.root().totals().disk_bytes >= WORTH_A_CHECKPOINT {
            self.returns_space.store(true, Ordering::Relaxed);
        }
    }

    /// The tree got messages.
    pub(crate) fn note_buffered(&self, tree: &Arc<Tree>) {
        let mut buffered = self.buffered.lock().unwrap_or_else(PoisonError::into_inner);
        buffered.entry(tree.serial).or_insert_with(|| tree.clone());
    }

    /// Living trees in which messages wait.
    pub(crate) fn buffered(&self) -> Vec<Arc<Tree>> {
        let mut buffered = self.buffered.lock().unwrap_or_else(PoisonError::into_inner);
        buffered.retain(|_, tree| tree.is_alive() && tree.root().totals().buffered_bytes > 0);
        buffered.values().cloned().collect()
    }

    /// A root was changed.
    pub(crate) fn installed(&self) {
        self.installs.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes of roots since opening.
    pub(crate) fn changes(&self) -> u64 {
        self.installs.load(Ordering::Relaxed)
    }

    /// Whether a root was changed since the last checkpoint began, or something was applied.
    pub(crate) fn has_changed(&self) -> bool {
        let captured = self.captured_installs.load(Ordering::Relaxed);
        self.installs.load(Ordering::Relaxed) != captured || self.visible() > self.checkpoints.durable()
    }

    pub(crate) fn filling_bytes(&self) -> u64 {
        self.writer().filling.memtable.bytes()
    }

    /// All figures by name.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        let trees = self.trees.all();
        let mut figures = self.io.figures();
        let totals = trees.iter().map(|tree| tree.root().totals());
        let (buffered, rows) = totals.fold((0, 0), |sum, totals| (sum.0 + totals.buffered_bytes, sum.1 + totals.bytes));
        figures.push(("trees", trees.len() as u64));
        figures.push(("leaf bytes", rows));
        figures.push(("buffered bytes", buffered));
        figures.push(("memtable bytes", self.backlog.bytes() + self.filling_bytes()));
        figures.push(("frozen memtables", self.backlog.len() as u64));
        figures.push(("bytes waiting for flushes", self.work.scheduler.waiting_bytes()));
        figures.push(("bytes beyond buffers", self.work.debt.bytes()));
        figures.push(("slots put aside", self.health.damaged.load(Ordering::Relaxed)));
        figures.push(("jobs that could not read", self.health.unread.load(Ordering::Relaxed)));
        figures.push(("work refused for want of space", self.health.refused.load(Ordering::Relaxed)));
        figures
    }

    /// Ends the memtable that is being filled, so that everything visible now can be absorbed. Answers up to where that is.
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
            self.keep_up();
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
        Ok(())
    }

    /// The state that a checkpoint makes durable: all that is absorbed now. `None`: the last one holds the same.
    fn capture(&self) -> Result<Option<Captured>> {
        let _turn = self.backlog.turn();
        let (applied, installs) = (self.backlog.absorbed(), self.installs.load(Ordering::Relaxed));
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

    /// Whether a tree has no rows now.
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
        let seq = self.visible().next_bulk().ok_or_else(too_many)?;
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
            counters: core.figures(),
        })
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        self.core.tree_stats(tree)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            update_messages: self.core.options.updates.is_some(),
            exact_counts: false,
            held_snapshots_keep_space: false,
            cheap_range_delete: true,
            compression: &["none", "lz4", "zstd"],
        }
    }
}
