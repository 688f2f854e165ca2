//! The runs of a slot become one, or a few, in the same slot.
//!
//! They are too many for readers, and too little to be worth a job below: small parts of many memtables, as they come of trees that share
//! a memtable with others. A leaf that was rewritten for each handful of them would cost up to thirty times their bytes.

use std::sync::Arc;

use arbor_base::sometimes;

use super::{Flushed, Job, plan, runs};
use crate::Result;
use crate::core::Core;
use crate::flush::absorb::fanout;
use crate::table::Table;
use crate::tree::install::{edit, find};
use crate::tree::{Bounds, Inner, Placed, Run, Slot};

/// Requires: no other job flushes this slot.
pub fn combine(core: &Core, job: &Job) -> Result<Flushed> {
    let root = job.tree.root();
    let Some((node, own)) = find(&root, &job.place) else { return Ok(Flushed::Refused) };
    let at = node.slot_of(&job.place.bounds.from);
    let (Some(slot), bounds) = (node.slots.get(at), node.bounds_of(at, &own)) else { return Ok(Flushed::Refused) };
    let before = plan::large_runs(node, slot, &job.tree.settings.load());
    let runs = slot.runs.get(before..).unwrap_or_default();
    // K2: it may have got other bounds since the job was queued; a run with range tombstones says something of what is below: it goes there
    if runs.len() < 2 || slot.has_tombstones() || bounds != job.place.bounds {
        return Ok(Flushed::Refused);
    }
    if before > 0 {
        sometimes!("ftree: a large run stays while others are combined");
    }
    let tables: Vec<(Arc<Table>, u64)> = runs.iter().map(|run| (run.table.clone(), run.bytes)).collect();
    let made = runs::of_tables(core, &job.tree, &tables, &bounds, &Inner::void(node.level))?;
    let within = |run: &runs::NewRun| run.bytes_within(&bounds).map(|bytes| Run { table: run.table.clone(), bytes });
    let made: Vec<Run> = made.iter().filter_map(within).collect();
    let ends_before = |runs: &[Run]| matches!(runs, [a, b] if a.table.meta.last_key < b.table.meta.first_key);
    debug_assert!(made.windows(2).all(ends_before), "C1: the runs of one job are disjoint and in order");
    sometimes!("ftree: the runs of a slot are combined");
    let mut change = |node: &Inner, own: &Bounds| replace(node, own, &bounds, before, &tables, &made);
    let done = job.tree.install_root(|root| edit(root, &job.place, fanout(&job.tree), &mut change));
    Ok(if done { Flushed::Done(0) } else { Flushed::Refused })
}

/// The node's content with the new runs in the place of those that the slot had behind the first `before`. They are as old as these (I1).
fn replace(
    node: &Inner,
    own: &Bounds,
    bounds: &Bounds,
    before: usize,
    tables: &[(Arc<Table>, u64)],
    made: &[Run],
) -> Option<Vec<Placed>> {
    let at = node.slot_of(&bounds.from);
    let slot = node.slots.get(at)?;
    if node.bounds_of(at, own) != *bounds || !slot.has_runs(before, tables) {
        return None;
    }
    let newest = tables.iter().map(|(table, _)| table.meta.max_seq).max()?;
    assert!(made.iter().all(|run| run.table.meta.max_seq <= newest), "I1: what is combined is no newer than it was");
    let (older, newer) = (slot.runs.iter().take(before), slot.runs.iter().skip(before + tables.len()));
    let runs = older.chain(made).chain(newer).cloned().collect();
    let mut content = node.placed(own);
    content.get_mut(at)?.slot = Arc::new(Slot::new(runs, slot.child.clone()));
    Some(content)
}
