//! A frozen memtable becomes runs in the root's slots.
//!
//! Generations are absorbed in order, one as a whole before the next (B1): between two of them the roots hold exactly what
//! was applied up to [`Backlog::absorbed`], which is where a checkpoint captures them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{NewRun, attach, cut, runs};
use crate::apply::Generation;
use crate::counters::Counter;
use crate::forest::Core;
use crate::memtable::MemTree;
use crate::tree::install::root_of;
use crate::tree::{Bounds, Tree, TreeVersion};
use crate::{Result, Seq};

/// Frozen generations that wait.
#[derive(Default)]
pub struct Backlog {
    /// Oldest first. The one that is being absorbed stays until it is.
    waiting: Mutex<VecDeque<Arc<Generation>>>,
    absorbed: AtomicU64,
    /// Held while a generation is absorbed, and while a checkpoint captures the roots.
    turn: Mutex<()>,
}

impl Backlog {
    pub fn new(absorbed: Seq) -> Backlog {
        Backlog { absorbed: AtomicU64::new(absorbed.0), ..Backlog::default() }
    }

    /// The roots hold everything up to here, and nothing newer.
    pub fn absorbed(&self) -> Seq {
        Seq(self.absorbed.load(Ordering::Acquire))
    }

    pub fn add(&self, generation: Generation) {
        self.lock().push_back(Arc::new(generation));
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Memory that waits.
    pub fn bytes(&self) -> u64 {
        self.lock().iter().map(|generation| generation.memtable.bytes()).sum()
    }

    /// While this is held nothing is absorbed.
    pub fn turn(&self) -> Turn<'_> {
        Turn { _guard: self.turn.lock().unwrap_or_else(PoisonError::into_inner), backlog: self }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Generation>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to absorb.
pub struct Turn<'b> {
    _guard: MutexGuard<'b, ()>,
    backlog: &'b Backlog,
}

impl Turn<'_> {
    /// Absorbs the oldest generation and answers its bytes; `None`: none waits. After an error the trees that were absorbed
    /// are, the others wait.
    pub fn absorb_one(&self, core: &Core) -> Result<Option<u64>> {
        let Some(generation) = self.backlog.lock().front().cloned() else { return Ok(None) };
        let mut paid = 0;
        for (tree, part) in &generation.parts {
            absorb_part(core, tree, part, generation.last)?;
            core.installed();
            core.note_buffered(tree);
            paid += core.note_debt(tree);
            core.plan_root(tree);
        }
        self.backlog.lock().pop_front();
        self.backlog.absorbed.store(generation.last.0, Ordering::Release);
        let bytes = generation.memtable.bytes();
        core.io.counters.add(Counter::AbsorbJobs, 1);
        core.io.counters.add(Counter::AbsorbedBytes, bytes);
        core.work.flushing.add(bytes as i64 + paid);
        Ok(Some(bytes))
    }
}

fn absorb_part(core: &Core, tree: &Arc<Tree>, part: &Arc<MemTree>, last: Seq) -> Result<()> {
    let version = tree.version.load_full();
    let waits = version.frozen.first().is_some_and(|oldest| Arc::ptr_eq(oldest, part));
    if !waits {
        // An earlier attempt got this far.
        return Ok(());
    }
    if core.is_unseen(tree, last) {
        tree.install(|current| Some(without_oldest(current)));
        return Ok(());
    }
    cut_ranges(core, tree, part);
    let made = runs::of_part(core, tree, part, &tree.root())?;
    tree.install(|current| Some(with_runs(current, &made, fanout(tree))));
    Ok(())
}

pub fn fanout(tree: &Tree) -> usize {
    tree.settings.load().fanout.max(2) as usize
}

/// Ranges that no snapshot looks behind are unlinked before anything is written.
fn cut_ranges(core: &Core, tree: &Tree, part: &MemTree) {
    let tombstones = part.tombstones();
    let oldest = core.snapshots.oldest();
    for tombstone in tombstones.iter().filter(|tombstone| oldest.is_none_or(|oldest| oldest >= tombstone.seq)) {
        tree.install_root(|root| {
            let content = cut::cut(root, &Bounds::all(), tombstone)?;
            Some(root_of(root.level, content, usize::MAX))
        });
    }
}

/// In the same version as the runs appear the part is gone: readers meet each message once.
fn with_runs(current: &TreeVersion, made: &[NewRun], fanout: usize) -> TreeVersion {
    let next = without_oldest(current);
    if made.is_empty() {
        return next;
    }
    let root = root_of(current.root.level, attach(&current.root, &Bounds::all(), made), fanout);
    TreeVersion { root, ..next }
}

fn without_oldest(current: &TreeVersion) -> TreeVersion {
    TreeVersion { frozen: current.frozen.iter().skip(1).cloned().collect(), ..current.clone() }
}
