//! State shared by all threads and snapshots of a forest.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arbor_disk::Lock;
use parking_lot::{Mutex, MutexGuard};

use crate::checkpoint::Checkpoints;
use crate::flush::backlog::Backlog;
use crate::generation::Writer;
use crate::health::Health;
use crate::io::Io;
use crate::memtable::MemTree;
use crate::snapshots::Snapshots;
use crate::tree::Tree;
use crate::trees::Trees;
use crate::work::state::Work;
use crate::{Options, Seq};

/// State shared by all threads and snapshots of a forest.
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
    pub(crate) buffered: Mutex<HashMap<u64, Arc<Tree>>>,
    pub(crate) checkpoints: Checkpoints,
    /// Much was deleted at once: the next checkpoint gives its space back.
    pub(crate) returns_space: AtomicBool,
    /// The active part of trees while nothing is written to them.
    pub(crate) no_part: Arc<MemTree>,
    /// Changes of roots since opening, and at the last checkpoint.
    pub(crate) installs: AtomicU64,
    pub(crate) captured_installs: AtomicU64,
    /// A checkpoint failed since the last one that was asked for or due. What is tried again and again on a full disk does not
    /// ignore it: each try takes space.
    pub(crate) checkpoint_failed: AtomicBool,
    /// 0: checkpoints begin by bytes alone.
    pub(crate) checkpoint_interval_ms: AtomicU64,
    /// Bytes absorbed since opening when the last checkpoint began by itself.
    pub(crate) checkpointed_bytes: AtomicU64,
    /// Dropped last (field order matters): the directory is ours as long as a snapshot reads from it.
    pub(crate) _lock: Box<dyn Lock>,
}

/// Incarnations that were dropped and that some reader may still see.
#[derive(Default)]
pub(crate) struct Dropped {
    list: Mutex<Vec<Arc<Tree>>>,
}

impl Dropped {
    pub(crate) fn add(&self, tree: Arc<Tree>) {
        assert!(!tree.is_alive(), "tree {} was dropped", tree.id);
        self.list.lock().push(tree);
    }
}

impl Core {
    pub fn visible(&self) -> Seq {
        Seq(self.visible.load(Ordering::Acquire))
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    /// Returns true if the tree is not visible any more, neither to a snapshot nor to a recovery to `at` or later.
    pub(crate) fn is_unseen(&self, tree: &Tree, at: Seq) -> bool {
        let dropped = tree.dropped();
        dropped <= at && dropped <= self.visible() && self.snapshots.oldest().is_none_or(|oldest| oldest >= dropped)
    }

    /// Drops trees that are not visible any more. Their content goes with the last checkpoint that holds them.
    pub(crate) fn reap(&self) {
        let absorbed = self.backlog.absorbed();
        let gone: Vec<Arc<Tree>> =
            self.dropped.list.lock().extract_if(.., |tree| self.is_unseen(tree, absorbed)).collect();
        if !gone.is_empty() {
            let mut buffered = self.buffered.lock();
            gone.iter().for_each(|tree| drop(buffered.remove(&tree.serial)));
            drop(buffered);
            gone.iter().for_each(|tree| self.trees.remove(tree));
            drop(gone);
            // Space that could not be returned now is tried again after the next checkpoint.
            let _ = self.io.space.return_space(&self.io.file);
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
        let mut buffered = self.buffered.lock();
        buffered.entry(tree.serial).or_insert_with(|| tree.clone());
    }

    /// Living trees in which messages wait.
    pub(crate) fn buffered(&self) -> Vec<Arc<Tree>> {
        let mut buffered = self.buffered.lock();
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

    /// Returns true if a root was changed since the last checkpoint began, or something was applied.
    pub(crate) fn has_changed(&self) -> bool {
        let captured = self.captured_installs.load(Ordering::Relaxed);
        self.installs.load(Ordering::Relaxed) != captured || self.visible() > self.checkpoints.durable()
    }

    pub(crate) fn filling_bytes(&self) -> u64 {
        self.writer().filling.memtable.bytes()
    }

    /// Returns all statistics by name.
    pub fn statistics(&self) -> Vec<(&'static str, u64)> {
        let trees = self.trees.all();
        let mut statistics = self.io.statistics();
        let totals = trees.iter().map(|tree| tree.root().totals());
        let (buffered, rows) = totals.fold((0, 0), |sum, totals| (sum.0 + totals.buffered_bytes, sum.1 + totals.bytes));
        statistics.push(("trees", trees.len() as u64));
        statistics.push(("leaf bytes", rows));
        statistics.push(("buffered bytes", buffered));
        statistics.push(("memtable bytes", self.backlog.bytes() + self.filling_bytes()));
        statistics.push(("frozen memtables", self.backlog.len() as u64));
        statistics.push(("bytes waiting for flushes", self.work.scheduler.waiting_bytes()));
        statistics.push(("bytes beyond buffers", self.work.debt.bytes()));
        statistics.push(("slots put aside", self.health.damaged.load(Ordering::Relaxed)));
        statistics.push(("jobs that could not read", self.health.unread.load(Ordering::Relaxed)));
        statistics.push(("work refused for want of space", self.health.refused.load(Ordering::Relaxed)));
        statistics
    }
}
