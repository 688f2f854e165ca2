//! The runs of a slot move into the slots of its child, an inner node.
//!
//! They are merged and rewritten, cut at the child's slots. Runs of which each slot they reach gets enough as it is, as when
//! rows come in key order, are handed down instead: the slots share the table, and nothing is written.

use std::sync::Arc;

use arbor_base::sometimes;

use super::absorb::fanout;
use super::{Flushed, Job, NewRun, attach, cut, runs};
use crate::core::Core;
use crate::table::Table;
use crate::tree::install::{child_of, edit, find};
use crate::tree::{Bounds, Child, Inner, Placed, Slot};
use crate::{Error, RangeTombstone, Result};

/// Requires: no other job flushes this slot.
pub fn push(core: &Core, job: &Job) -> Result<Flushed> {
    let root = job.tree.root();
    let Some((node, own)) = find(&root, &job.place) else { return Ok(Flushed::Refused) };
    let at = node.slot_of(&job.place.bounds.from);
    let (Some(slot), bounds) = (node.slots.get(at), node.bounds_of(at, &own)) else { return Ok(Flushed::Refused) };
    // K2: it may have got other bounds since the job was queued, or be two slots now
    if slot.runs.is_empty() || bounds != job.place.bounds {
        return Ok(Flushed::Refused);
    }
    let Some(child) = child_to_fill(slot, node.level) else {
        let place = core.io.file.path().display().to_string();
        return Err(Error::Corrupt { place, context: "the node that messages should go to is lost".to_owned() });
    };
    let tables: Vec<(Arc<Table>, u64)> = slot.runs.iter().map(|run| (run.table.clone(), run.bytes)).collect();
    let tombstones = runs::total_tombstones(core, &tables, &bounds)?;
    let made = match runs::handed_down(core, &job.tree, &tables, &bounds, &child)? {
        Some(whole) => {
            sometimes!("ftree: runs are handed down whole");
            whole
        }
        None => runs::of_tables(core, &job.tree, &tables, &bounds, &child)?,
    };
    let step = Step { bounds, tables, made, tombstones, fanout: fanout(&job.tree) };
    let moved = slot.buffered_bytes();
    let done =
        job.tree.install_root(|root| edit(root, &job.place, step.fanout, &mut |node, own| step.change(node, own)));
    Ok(if done { Flushed::Done(moved) } else { Flushed::Refused })
}

/// Returns the child, or a new one: an empty slot gets a node without anything. `None`: the child is the placeholder of a
/// node that opening found damaged, which is not replaced.
fn child_to_fill(slot: &Slot, level: u8) -> Option<Arc<Inner>> {
    match &slot.child {
        Child::Inner(inner) => Some(inner.clone()),
        Child::Empty => Some(Inner::void(level - 1)),
        Child::Leaf(_) => None,
    }
}

struct Step {
    bounds: Bounds,
    /// Consumed, oldest first.
    tables: Vec<(Arc<Table>, u64)>,
    made: Vec<NewRun>,
    /// Those among the consumed messages that every snapshot sees.
    tombstones: Vec<RangeTombstone>,
    fanout: usize,
}

impl Step {
    /// The child may have changed meanwhile: only what is pushed counts, and that is newer than all below (I1).
    fn change(&self, node: &Inner, own: &Bounds) -> Option<Vec<Placed>> {
        let at = node.slot_of(&self.bounds.from);
        let slot = node.slots.get(at)?;
        let bounds = node.bounds_of(at, own);
        if bounds != self.bounds || !slot.begins_with(&self.tables) {
            return None;
        }
        let mut child = child_to_fill(slot, node.level)?;
        for tombstone in &self.tombstones {
            child = match cut::cut(&child, &bounds, tombstone).map(|content| child_of(child.level, content)) {
                None => child,
                Some(Child::Inner(child)) => child,
                Some(_) => Inner::void(node.level - 1),
            };
        }
        assert!(child.level + 1 == node.level, "a child of level {} below level {}", child.level, node.level);
        let rest = Slot::new(slot.runs.iter().skip(self.tables.len()).cloned().collect(), Child::Empty);
        let below = attach(&child, &bounds, &self.made);
        let mut content = node.placed(own);
        let child = child_of(child.level, below);
        content.splice(at..=at, [Placed { from: bounds.from, slot: Arc::new(rest.with_child(child)) }]);
        Some(content)
    }
}
