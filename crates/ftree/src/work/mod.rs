//! Background work: its threads, its schedule, and throttling of writers.
//!
//! - [`scheduler`]: the queue of tasks; [`claims`]: the slots that they have
//! - [`debt`]: waiting work beyond the allowance; [`pace`]: rates and delays; [`room`]: throttling and admission of writers
//! - [`rest`]: rests of workers, so that work is spread over time
//! - [`shares`]: how much memory jobs under way may take together
//! - [`maintenance`]: periodic work: checkpoints, dropped trees; [`idle`]: work while nothing is written
//!
//! Workers take tasks one by one. Without workers (`threads = 0`) the writer does all that is due after each group, one
//! deterministic step after another.
//!
//! Lock order: checkpoint state, writer, turn of absorbing, install lock of a tree, queue.

mod claims;
pub mod debt;
pub mod idle;
pub mod maintenance;
pub mod pace;
pub mod rest;
mod room;
pub mod scheduler;
pub mod shares;
pub mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::sometimes;

use crate::Result;
use crate::core::Core;
use crate::counters::Counter;
use crate::flush::absorb::Absorbed;
use crate::flush::combine::combine;
use crate::flush::leaf::rewrite_leaf;
use crate::flush::plan::{self, Due};
use crate::flush::push::push;
use crate::flush::{Flushed, Job};
use crate::health::{Health, key_of};
use crate::tree::install::find;
use crate::tree::{Bounds, Inner, Place, Tree};

pub use scheduler::Task;

/// A thread that panicked leaves work half done: nothing is written any more.
struct PoisonOnPanic<'h>(&'h Health);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison("a background thread panicked".to_owned());
        }
    }
}

fn flush(core: &Core, job: &Job) -> Result<Flushed> {
    if job.combines {
        core.io.counters.add(Counter::CombineJobs, 1);
        return combine(core, job);
    }
    if job.place.level == 1 {
        core.io.counters.add(Counter::LeafJobs, 1);
        return rewrite_leaf(core, job);
    }
    core.io.counters.add(Counter::PushJobs, 1);
    push(core, job)
}

impl Core {
    /// Runs a worker thread until it is stopped.
    pub fn work_until_stopped(&self) {
        let _poison = PoisonOnPanic(&self.health);
        let mut rest = Duration::ZERO;
        while let Some(task) = self.work.scheduler.next(rest) {
            let (is_flush, begun) = (matches!(task, Task::Flush(_)), Instant::now());
            self.run(task);
            rest = if is_flush { self.rest(begun.elapsed()) } else { Duration::ZERO };
        }
    }

    /// All that is due, at once.
    pub fn run_due(&self) {
        while !self.health.is_poisoned()
            && let Some(task) = self.work.scheduler.try_next()
        {
            self.run(task);
        }
    }

    pub fn run(&self, task: Task) {
        match task {
            Task::Absorb => self.run_absorb(),
            Task::Flush(job) => self.run_flush(&job),
        }
    }

    /// One generation.
    fn run_absorb(&self) {
        let begun = Instant::now();
        let done = if self.health.is_poisoned() { Ok(None) } else { self.backlog.turn().absorb_one(self) };
        let more = match done {
            Ok(absorbed) => {
                let more = !self.backlog.is_empty() && !self.health.is_poisoned();
                if let Some(Absorbed { bytes, paid }) = absorbed {
                    self.work.absorbing.done(bytes as i64, begun.elapsed());
                    self.work.flushing.done(paid, begun.elapsed());
                }
                self.begin_plan();
                self.health.found_space();
                more
            }
            Err(error) => {
                // It waits; the maintenance thread, or the next group, tries again.
                self.health.note(&error, None);
                false
            }
        };
        self.work.scheduler.absorbed(more);
    }

    fn run_flush(&self, job: &Job) {
        if self.health.is_poisoned() || self.is_unseen(&job.tree, self.visible()) {
            return self.work.scheduler.release(&job.tree, &job.place);
        }
        let begun = Instant::now();
        let done = flush(self, job);
        self.work.scheduler.release(&job.tree, &job.place);
        let paid = match &done {
            Ok(Flushed::Done(bytes)) => {
                self.health.found_space();
                self.installed();
                self.io.counters.add(Counter::flushed_to(job.place.level - 1), *bytes);
                self.note_debt(&job.tree)
            }
            Ok(Flushed::Refused) => {
                sometimes!("ftree: a tree changed under a job");
                self.io.counters.add(Counter::InstallsDiscarded, 1);
                0
            }
            Err(error) => {
                self.health.note(error, job.keys.first().cloned());
                0
            }
        };
        self.work.flushing.done(paid, begun.elapsed());
        if done.is_ok() {
            self.plan_again(job);
        }
    }

    /// A job changed its node, and a push those below.
    pub fn plan_again(&self, job: &Job) {
        let root = job.tree.root();
        self.plan_nodes(&job.tree, &root, &job.place);
        if job.place.level > 1 {
            self.plan_nodes(&job.tree, &root, &Place { level: job.place.level - 1, ..job.place.clone() });
        }
    }

    /// Queues what is due in the nodes of a level that overlap the place.
    fn plan_nodes(&self, tree: &Arc<Tree>, root: &Inner, place: &Place) {
        let mut from = place.bounds.from.clone();
        loop {
            let point = Place { level: place.level, bounds: Bounds { from: from.clone(), to: Some(after(&from)) } };
            let Some((node, own)) = find(root, &point) else { return };
            self.plan_node(tree, node, &own);
            match own.to {
                Some(to) if place.bounds.to.as_ref().is_none_or(|end| to < *end) => from = to,
                _ => return,
            }
        }
    }

    pub fn plan_root(&self, tree: &Arc<Tree>) {
        self.plan_node(tree, &tree.root(), &Bounds::all());
    }

    /// All nodes, as after opening.
    pub fn plan_tree(&self, tree: &Arc<Tree>) {
        self.plan_below(tree, &tree.root(), &Bounds::all());
    }

    fn plan_below(&self, tree: &Arc<Tree>, node: &Inner, own: &Bounds) {
        self.plan_node(tree, node, own);
        for (at, slot) in node.slots.iter().enumerate() {
            if let crate::tree::Child::Inner(inner) = &slot.child {
                self.plan_below(tree, inner, &node.bounds_of(at, own));
            }
        }
    }

    fn plan_node(&self, tree: &Arc<Tree>, node: &Inner, own: &Bounds) {
        let settings = tree.settings.load();
        let scheduler = &self.work.scheduler;
        let busy = |place: &Place| scheduler.is_busy(tree, place) || self.health.is_put_aside(&key_of(tree, place));
        for due in plan::due(node, own, &settings, &busy) {
            self.queue(tree, node, own, due);
        }
    }

    /// Queues a job for a slot, with its neighbour when both leaves are small.
    pub fn queue(&self, tree: &Arc<Tree>, node: &Inner, own: &Bounds, due: Due) {
        let Due { place, weight, bytes, combines } = due;
        let mut keys = vec![key_of(tree, &place)];
        let bounds = match combines {
            true => place.bounds.clone(),
            false => plan::with_neighbour(node, own, &place, &tree.settings.load()),
        };
        let mut wide = Place { bounds, ..place.clone() };
        if wide != place {
            let other = if wide.bounds.from == place.bounds.from {
                place.bounds.to.clone()
            } else {
                Some(wide.bounds.from.clone())
            };
            let other = (tree.serial, place.level, other.unwrap_or_default());
            if self.work.scheduler.is_busy(tree, &wide) || self.health.is_put_aside(&other) {
                wide = place;
            } else {
                keys.push(other);
            }
        }
        self.work.scheduler.add(Job { tree: tree.clone(), place: wide, keys, weight, bytes, combines });
    }
}

/// The next key.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
