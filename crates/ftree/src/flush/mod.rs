//! Moving entries down the tree, in bounded jobs concurrent with readers and the writer.
//!
//! - [`absorb`]: a frozen memtable becomes runs in the root's slots; [`direct`]: or leaves at once, where keys ascend
//! - [`push`]: the runs of a slot move into the slots of its child
//! - [`leaf`]: the runs of slots over leaves are merged into new leaves
//! - [`combine`]: the runs of a slot become one
//! - [`cut`]: range tombstones unlink what they cover
//! - [`plan`]: which slots are due; [`small`]: which leaves are merged
//!
//! A job reads a version, makes new tables without any lock, and then changes the tree as it is by then: the node is found
//! again by its key, and its slots must still begin with the runs that were consumed (and still have the leaf that was).
//! If not, what was made is dropped, which is counted, and the slot is looked at again.

pub mod absorb;
pub mod backlog;
pub mod combine;
pub mod cut;
pub mod direct;
pub mod leaf;
pub mod plan;
#[cfg(test)]
mod plan_tests;
pub mod push;
pub mod runs;
#[cfg(test)]
mod script_tests;
pub mod small;

use std::ops::Range;
use std::sync::Arc;

pub use runs::NewRun;

use crate::health::{Key, key_of};
use crate::tree::{Bounds, Inner, Place, Placed, Run, Tree};

/// A slot whose runs are to be combined or flushed. Level 1: into its leaf, maybe together with a neighbour.
#[derive(Clone)]
pub struct Job {
    pub tree: Arc<Tree>,
    /// The level of the node that the slot is in, and the slot's bounds.
    pub place: Place,
    /// Keys of the slots.
    pub keys: Vec<Key>,
    pub weight: u64,
    /// Bytes of messages that wait.
    pub bytes: u64,
    /// The runs stay in the slot, as one.
    pub combines: bool,
}

impl Job {
    /// Neighbouring slots of a node, with all that waits in them.
    pub fn of_slots(tree: &Arc<Tree>, node: &Inner, own: &Bounds, slots: Range<usize>) -> Job {
        let place = |at: usize| Place { level: node.level, bounds: node.bounds_of(at, own) };
        let (from, to) = (place(slots.start).bounds.from, place(slots.end.saturating_sub(1)).bounds.to);
        let within = node.slots.get(slots.clone()).unwrap_or_default();
        debug_assert!(!within.is_empty(), "slots {slots:?} of {}", node.slots.len());
        Job {
            tree: tree.clone(),
            place: Place { level: node.level, bounds: Bounds { from, to } },
            keys: slots.map(|at| key_of(tree, &place(at))).collect(),
            weight: within.iter().map(|slot| slot.weight()).sum(),
            bytes: within.iter().map(|slot| slot.buffered_bytes()).sum(),
            combines: false,
        }
    }
}

/// Result of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flushed {
    /// So many bytes of messages went down.
    Done(u64),
    /// The slot changed meanwhile, or is gone.
    Refused,
}

/// Gives new runs, the newest, to the slots that they were made for.
pub fn attach(node: &Inner, own: &Bounds, runs: &[NewRun]) -> Vec<Placed> {
    debug_assert!(runs.iter().all(|run| run.reaches_into(own)), "C1: {own:?} gets runs of its own");
    let mut content = node.placed(own);
    for (at, placed) in content.iter_mut().enumerate() {
        let bounds = node.bounds_of(at, own);
        // Range tombstones over nothing say nothing.
        let is_void = placed.slot.is_void();
        for run in runs.iter().filter(|run| !is_void || run.table.meta.rows > 0) {
            if let Some(bytes) = run.bytes_within(&bounds) {
                placed.slot = Arc::new(placed.slot.with_run(Run { table: run.table.clone(), bytes }));
            }
        }
    }
    content
}
