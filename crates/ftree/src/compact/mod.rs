//! Compaction: a tree takes as little space as its rows need, and the file ends where it can.
//!
//! 1. What was applied is absorbed, and all messages go down to the leaves, level by level ([`drain`]).
//! 2. Under-filled inner nodes and small neighbouring leaves are merged; leaves that keep versions for snapshots that are gone, or
//!    that the tree's settings of today would make otherwise, are rewritten ([`leaves`]).
//! 3. A checkpoint frees what was replaced. Tables that are further back than the file would be long without gaps move to free
//!    space before ([`relocate`]); inner nodes there are written again by the next checkpoint.
//! 4. A checkpoint again; then all free space goes back to the file system.
//!
//! Every step is a job like others: it holds no more memory, is installed like others (or dropped, when the tree changed), and
//! readers, `apply` and background threads continue concurrently. `stop` is checked between steps. While the tree is written
//! to, what comes in the meantime stays where it is. After [`CHECKPOINT_BYTES`] of replaced tables a checkpoint is made,
//! so that compaction needs little free space. A tree on which nothing is to do costs one pass over its inner nodes, which are
//! in memory.

mod drain;
mod leaves;
mod relocate;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arbor_base::TreeId;

use crate::core::Core;
use crate::flush::{Flushed, Job};
use crate::tree::install::node_behind;
use crate::tree::{Bounds, Inner, Tree};
use crate::{Counter, Error, Result};

/// Replaced tables whose space a checkpoint frees.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// Delays between two checks of slots that other jobs work on, the first and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(1);

struct Compaction<'c> {
    core: &'c Core,
    tree: Arc<Tree>,
    stop: &'c dyn Fn() -> bool,
    /// Bytes of tables that were replaced since the last checkpoint.
    replaced: Cell<u64>,
}

/// Result of a pass over the tree, or of a step of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    /// It is time to stop.
    Stopped,
    /// Slots rewritten; slots skipped because another job holds them.
    Done { changed: u64, busy: u64 },
}

impl Pass {
    const NOTHING: Pass = Pass::Done { changed: 0, busy: 0 };
    const CHANGED: Pass = Pass::Done { changed: 1, busy: 0 };
    const BUSY: Pass = Pass::Done { changed: 0, busy: 1 };

    fn and(self, other: Pass) -> Pass {
        match (self, other) {
            (Pass::Done { changed, busy }, Pass::Done { changed: more, busy: others }) => {
                Pass::Done { changed: changed + more, busy: busy + others }
            }
            _ => Pass::Stopped,
        }
    }

    fn has_changed(self) -> bool {
        matches!(self, Pass::Done { changed, .. } if changed > 0)
    }
}

impl Core {
    /// Returns the bytes that went back to the file system.
    pub(crate) fn compact(&self, id: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.health.check()?;
        let tree = self.trees.alive(id).ok_or(Error::UnknownTree(id))?;
        let held = self.io.space.held_bytes();
        let compaction = Compaction { core: self, tree, stop, replaced: Cell::new(0) };
        if compaction.run()? != Pass::Stopped {
            self.checkpoint()?;
            // Space that cannot be returned now is tried again after the next checkpoint.
            let _ = self.io.space.return_all_space(&self.io.file);
        }
        Ok(held.saturating_sub(self.io.space.held_bytes()))
    }
}

impl Compaction<'_> {
    fn run(&self) -> Result<Pass> {
        /// Merged nodes bring leaves together that were in different ones, and what moved makes room for others.
        const ROUNDS: usize = 6;
        if self.drain()? == Pass::Stopped {
            return Ok(Pass::Stopped);
        }
        for _ in 0..ROUNDS {
            let nodes = self.merge_nodes()?;
            if !nodes.and(self.patiently(|| self.renew_leaves())?).has_changed() {
                break;
            }
        }
        for _ in 0..ROUNDS {
            if !self.should_continue()? {
                return Ok(Pass::Stopped);
            }
            self.checkpoint()?;
            let moved = self.patiently(|| self.relocate())?;
            if !moved.has_changed() {
                return Ok(moved);
            }
        }
        Ok(Pass::CHANGED)
    }

    /// Errors: writing is over.
    fn should_continue(&self) -> Result<bool> {
        self.core.health.check()?;
        Ok(self.tree.is_alive() && !(self.stop)())
    }

    fn checkpoint(&self) -> Result<()> {
        self.replaced.set(0);
        self.core.checkpoint().map(drop)
    }

    /// Visits the nodes of a level from left to right, each as it is when it is its turn.
    fn each_node(&self, level: u8, visit: &mut dyn FnMut(&Inner, &Bounds) -> Result<Pass>) -> Result<Pass> {
        let (mut from, mut sum) = (Vec::new(), Pass::NOTHING);
        loop {
            if !self.should_continue()? {
                return Ok(Pass::Stopped);
            }
            let root = self.tree.root();
            let Some((node, own)) = node_behind(&root, Bounds::all(), level, &from) else { return Ok(sum) };
            sum = sum.and(visit(node, &own)?);
            match own.to {
                Some(to) if sum != Pass::Stopped => from = to,
                _ => return Ok(sum),
            }
        }
    }

    /// Repeats a pass while slots are left to other jobs, which mostly do the same.
    fn patiently(&self, mut pass: impl FnMut() -> Result<Pass>) -> Result<Pass> {
        let (mut sum, mut wait) = (Pass::NOTHING, FIRST_LOOK);
        loop {
            let done = pass()?;
            sum = sum.and(done);
            match done {
                Pass::Done { busy, .. } if busy > 0 && wait < PATIENCE => {}
                _ => return Ok(sum),
            }
            if self.core.options.threads == 0 {
                self.core.run_due();
            }
            std::thread::sleep(wait);
            wait *= 2;
        }
    }

    /// A job on slots of a node, done here and now.
    fn step(
        &self,
        node: &Inner,
        own: &Bounds,
        slots: Range<usize>,
        flush: &dyn Fn(&Job) -> Result<Flushed>,
    ) -> Result<Pass> {
        if !self.should_continue()? {
            return Ok(Pass::Stopped);
        }
        let job = Job::of_slots(&self.tree, node, own, slots);
        if job.keys.iter().any(|key| self.core.health.is_put_aside(key)) {
            return Ok(Pass::NOTHING);
        }
        if !self.core.work.scheduler.claim(&job.tree, &job.place) {
            return Ok(Pass::BUSY);
        }
        let mut done = flush(&job);
        if matches!(done, Err(Error::OutOfSpace { .. })) && self.checkpoint().is_ok() {
            done = flush(&job);
        }
        self.core.work.scheduler.release(&job.tree, &job.place);
        self.core.io.counters.add(Counter::CompactionJobs, 1);
        self.after(&job, done)
    }

    fn after(&self, job: &Job, done: Result<Flushed>) -> Result<Pass> {
        let pass = match done {
            Ok(Flushed::Done(bytes)) => {
                self.core.installed();
                self.core.io.counters.add(Counter::flushed_to(job.place.level - 1), bytes);
                Pass::CHANGED
            }
            Ok(Flushed::Refused) => Pass::BUSY,
            Err(error) => {
                self.core.health.note(&error, job.keys.first().cloned());
                // Damage is put aside, and the rest of the tree is compacted.
                match error {
                    Error::Corrupt { .. } | Error::Other(_) => Pass::NOTHING,
                    error => return Err(error),
                }
            }
        };
        self.core.plan_again(job);
        if self.core.options.threads == 0 {
            self.core.run_due();
        }
        if self.replaced.get() >= CHECKPOINT_BYTES {
            self.checkpoint()?;
        }
        Ok(pass)
    }
}
