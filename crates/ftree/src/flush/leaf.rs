//! The runs of slots over leaves are merged with the leaves into new ones.
//!
//! Usually of one slot. Neighbours whose leaves became small are taken together and become one. Compaction also rewrites a leaf
//! to which no messages go.

use std::sync::Arc;

use arbor_base::sometimes;

use super::absorb::fanout;
use super::{Flushed, Job, runs};
use crate::Result;
use crate::core::Core;
use crate::merge::LargeValuePolicy;
use crate::table::Table;
use crate::tree::install::{edit, find, spread_runs, with_bounds};
use crate::tree::{Bounds, Child, Inner, Place, Placed, Slot};

/// Messages that a job consumes of one slot.
pub struct Consumed {
    pub bounds: Bounds,
    /// Oldest first, with the bytes inside the slot.
    pub runs: Vec<(Arc<Table>, u64)>,
    pub child: Child,
    pub bytes: u64,
}

impl Consumed {
    pub(super) fn of(slot: &Slot, bounds: Bounds) -> Consumed {
        let runs = slot.runs.iter().map(|run| (run.table.clone(), run.bytes)).collect();
        Consumed { bounds, runs, child: slot.child.clone(), bytes: slot.buffered_bytes() }
    }
}

/// Requires: no other job flushes this slot.
pub fn rewrite_leaf(core: &Core, job: &Job) -> Result<Flushed> {
    let root = job.tree.root();
    let Some(consumed) = find(&root, &job.place).and_then(|(node, own)| consume(node, &own, &job.place)) else {
        return Ok(Flushed::Refused);
    };
    let worthwhile = consumed.len() > 1 || consumed.iter().any(|slot| !slot.runs.is_empty());
    if worthwhile { rewrite(core, job, &consumed, LargeValuePolicy::Stay) } else { Ok(Flushed::Refused) }
}

/// As [`rewrite_leaf`], whether or not there are messages.
pub fn renew_leaf(core: &Core, job: &Job, large_values: LargeValuePolicy) -> Result<Flushed> {
    let root = job.tree.root();
    let consumed = find(&root, &job.place).and_then(|(node, own)| consume(node, &own, &job.place));
    consumed.map_or(Ok(Flushed::Refused), |consumed| rewrite(core, job, &consumed, large_values))
}

fn rewrite(core: &Core, job: &Job, consumed: &[Consumed], large_values: LargeValuePolicy) -> Result<Flushed> {
    let leaves = runs::leaves(core, &job.tree, consumed, None, large_values)?;
    match (consumed.len(), leaves.len()) {
        (_, 0) => sometimes!("ftree: no row of a leaf is left"),
        (1, 2..) => sometimes!("ftree: a leaf splits"),
        (2.., 1) => sometimes!("ftree: small leaves are merged"),
        _ => {}
    }
    let moved = consumed.iter().map(|slot| slot.bytes).sum();
    let fanout = fanout(&job.tree);
    let done = job
        .tree
        .install_root(|root| edit(root, &job.place, fanout, &mut |node, own| replace(node, own, consumed, &leaves)));
    Ok(if done { Flushed::Done(moved) } else { Flushed::Refused })
}

/// The slots of the place. `None`: one of them reaches beyond it by now (K2).
fn consume(node: &Inner, own: &Bounds, place: &Place) -> Option<Vec<Consumed>> {
    let mut consumed = Vec::new();
    let slots = node.slots.iter().enumerate().skip(node.slot_of(&place.bounds.from));
    for (at, slot) in slots {
        let bounds = node.bounds_of(at, own);
        if !bounds.overlaps(&place.bounds) {
            break;
        }
        if !place.bounds.covers(&bounds) {
            sometimes!("ftree: a slot grew beyond what its job has");
            return None;
        }
        let follows = |last: &Consumed| last.bounds.to.as_ref() == Some(&bounds.from);
        debug_assert!(consumed.last().is_none_or(follows), "a job takes neighbouring slots");
        consumed.push(Consumed::of(slot, bounds));
    }
    (!consumed.is_empty()).then_some(consumed)
}

/// The node's content with the leaves in the place of what was consumed.
pub(super) fn replace(
    node: &Inner,
    own: &Bounds,
    consumed: &[Consumed],
    leaves: &[(Vec<u8>, Arc<Table>)],
) -> Option<Vec<Placed>> {
    let first = node.slot_of(&consumed.first()?.bounds.from);
    let slots = node.slots.get(first..first + consumed.len())?;
    for (at, (slot, consumed)) in slots.iter().zip(consumed).enumerate() {
        // What joined the slot meanwhile held nothing (see `tidy`), so wider bounds do no harm.
        let same = node.bounds_of(first + at, own).covers(&consumed.bounds) && slot.child.is(&consumed.child);
        if !same || !slot.begins_with(&consumed.runs) {
            return None;
        }
    }
    // I3: a run that came meanwhile may reach into one of several slots only.
    if slots.len() > 1 && slots.iter().zip(consumed).any(|(slot, consumed)| slot.runs.len() > consumed.runs.len()) {
        return None;
    }
    if slots.iter().zip(consumed).any(|(slot, consumed)| slot.runs.len() > consumed.runs.len()) {
        sometimes!("ftree: a run arrives while its leaf is rewritten");
    }
    let last = first + consumed.len() - 1;
    let bounds = Bounds { from: node.bounds_of(first, own).from, to: node.bounds_of(last, own).to };
    assert!(leaves.iter().skip(1).all(|(from, _)| bounds.from < *from && bounds.contains(from)), "L1: {bounds:?}");
    let newer = slots.first()?.runs.iter().skip(consumed.first()?.runs.len()).cloned().collect();
    let mut content = node.placed(own);
    content.splice(first..=last, spread_runs(&Slot::new(newer, Child::Empty), halves(bounds, leaves)));
    Some(content)
}

/// One slot for each leaf, or one without a leaf.
fn halves(bounds: Bounds, leaves: &[(Vec<u8>, Arc<Table>)]) -> Vec<(Bounds, Child)> {
    let mut parts: Vec<(Vec<u8>, Child)> =
        leaves.iter().map(|(from, leaf)| (from.clone(), Child::Leaf(leaf.clone()))).collect();
    match parts.first_mut() {
        Some((from, _)) => *from = bounds.from,
        None => parts.push((bounds.from, Child::Empty)),
    }
    with_bounds(parts, bounds.to)
}
