//! Output of jobs, by way of [`rewrite`].

use std::sync::Arc;

use super::leaf::Consumed;
use crate::core::Core;
use crate::memtable::MemTree;
use crate::merge::{Input, LargeValuePolicy, Messages, Output, Rewrite, Target, rewrite};
use crate::table::Table;
use crate::tree::{Bounds, Child, Inner, Tree};
use crate::{RangeTombstone, Result};

/// The part of the budget that jobs under way may take together.
const JOBS_PARTS: u64 = 8;

/// A run that waits to be given to slots.
pub struct NewRun {
    pub table: Arc<Table>,
    /// The slots that it was made for, and how much each gets.
    parts: Vec<(Bounds, u64)>,
}

impl NewRun {
    /// Returns true if it was made for slots within these bounds.
    pub fn reaches_into(&self, bounds: &Bounds) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|(part, _)| part.overlaps(bounds))
    }

    /// Returns the bytes within the bounds; `None`: nothing. A slot that split since gets as much as what it was a part of.
    pub fn bytes_within(&self, bounds: &Bounds) -> Option<u64> {
        let parts = self.parts.iter().filter(|(part, _)| part.overlaps(bounds));
        parts.map(|(_, bytes)| *bytes).reduce(|sum, bytes| sum + bytes)
    }
}

/// Parts of memtables for the slots of the root. `parts`: oldest first.
pub fn of_parts(core: &Core, tree: &Tree, parts: &[Arc<MemTree>], root: &Inner) -> Result<Vec<NewRun>> {
    let input = |part: &Arc<MemTree>| {
        let (from, bytes) = (Vec::new(), part.bytes());
        Input { messages: Messages::Memtable(part.clone()), from, to: None, bytes }
    };
    let inputs: Vec<Input> = parts.iter().rev().map(input).collect();
    for_slots(core, tree, &inputs, root, &Bounds::all())
}

/// Runs of a slot for the slots of its child. `tables`: oldest first, with the bytes within the bounds.
pub fn of_tables(
    core: &Core,
    tree: &Tree,
    tables: &[(Arc<Table>, u64)],
    bounds: &Bounds,
    child: &Inner,
) -> Result<Vec<NewRun>> {
    let inputs: Vec<Input> = tables.iter().rev().map(|(table, bytes)| input(table, *bytes, bounds)).collect();
    for_slots(core, tree, &inputs, child, bounds)
}

/// The tables as they are, oldest first, when each slot of the child that one reaches gets half a run or more of it.
pub fn handed_down(
    core: &Core,
    tree: &Tree,
    tables: &[(Arc<Table>, u64)],
    bounds: &Bounds,
    child: &Inner,
) -> Result<Option<Vec<NewRun>>> {
    let enough = u64::from(tree.settings.load().run_bytes) / 2;
    let mut whole = Vec::with_capacity(tables.len());
    for (table, bytes) in tables {
        let meta = &table.meta;
        let first = child.slot_of(meta.first_key.as_slice().max(&bounds.from));
        let last = match &bounds.to {
            Some(to) if *to <= meta.last_key => child.slots.len() - 1,
            _ => child.slot_of(&meta.last_key),
        };
        let slots = (last + 1).saturating_sub(first) as u64;
        if meta.has_tombstones || slots == 0 || bytes / slots < enough {
            return Ok(None);
        }
        let body = table.body(&core.io)?;
        debug_assert!(last < child.slots.len(), "slots {first}..={last} of {}", child.slots.len());
        let part = |slot: usize| {
            let bounds = child.bounds_of(slot, bounds);
            let end = bounds.to.as_deref().map_or(body.block_count(), |to| body.blocks_before(to));
            let bytes = (body.block_of(&bounds.from)..end).map(|at| body.raw_bytes_of(at)).sum();
            (bounds, bytes)
        };
        let parts = (first..=last).map(part).filter(|(_, bytes)| *bytes > 0).collect();
        whole.push(NewRun { table: table.clone(), parts });
    }
    Ok(Some(whole))
}

/// Returns true if new leaves are worth their memory: there is room, or the old ones were read lately.
fn is_warm(core: &Core, old: &[Arc<Table>]) -> bool {
    let cache = &core.io.cache;
    cache.used() < cache.limit() / 4 * 3 || old.iter().any(|leaf| leaf.is_warm())
}

fn for_slots(core: &Core, tree: &Tree, inputs: &[Input], node: &Inner, own: &Bounds) -> Result<Vec<NewRun>> {
    let target = Target::Runs { level: node.level, pivots: &node.pivots };
    let outputs = run(
        core,
        tree,
        inputs,
        target,
        own,
        RewritePolicy { keep_cached: true, large_values: LargeValuePolicy::Stay },
    )?;
    let part = |(slot, bytes): &(usize, u64)| (node.bounds_of(*slot, own), *bytes);
    let new_run = |output: Output| NewRun { parts: output.slots.iter().map(part).collect(), table: output.table };
    Ok(outputs.into_iter().map(new_run).collect())
}

/// The leaves that take the place of what is consumed. `part`: newer messages, with their bytes within the slots.
pub fn leaves(
    core: &Core,
    tree: &Tree,
    consumed: &[Consumed],
    part: Option<(&Arc<MemTree>, u64)>,
    large_values: LargeValuePolicy,
) -> Result<Vec<(Vec<u8>, Arc<Table>)>> {
    let newest_first = |slot: &Consumed| slot.runs.iter().rev().map(|run| input(&run.0, run.1, &slot.bounds)).collect();
    let from = consumed.first().map(|slot| slot.bounds.from.clone()).unwrap_or_default();
    let own = Bounds { from, to: consumed.last().and_then(|slot| slot.bounds.to.clone()) };
    let of_part = part.map(|(part, bytes)| {
        let messages = Messages::Memtable(part.clone());
        Input { messages, from: own.from.clone(), to: own.to.clone(), bytes }
    });
    let inputs: Vec<Input> =
        of_part.into_iter().chain(consumed.iter().flat_map::<Vec<Input>, _>(newest_first)).collect();
    let leaf_of = |slot: &Consumed| match &slot.child {
        Child::Leaf(leaf) => Some(leaf.clone()),
        _ => None,
    };
    let old: Vec<Arc<Table>> = consumed.iter().filter_map(leaf_of).collect();
    let policy = RewritePolicy { keep_cached: is_warm(core, &old), large_values };
    let outputs = run(core, tree, &inputs, Target::Leaves(&old), &own, policy)?;
    let stays = |table: &Arc<Table>| old.iter().any(|leaf| Arc::ptr_eq(leaf, table));
    let renewed = |table: Arc<Table>| if stays(&table) { table.renewed() } else { table };
    Ok(outputs.into_iter().map(|output| (output.from, renewed(output.table))).collect())
}

fn input(table: &Arc<Table>, bytes: u64, bounds: &Bounds) -> Input {
    Input { messages: Messages::Run(table.clone()), from: bounds.from.clone(), to: bounds.to.clone(), bytes }
}

/// See [`Rewrite`].
struct RewritePolicy {
    keep_cached: bool,
    large_values: LargeValuePolicy,
}

fn run(
    core: &Core,
    tree: &Tree,
    inputs: &[Input],
    target: Target<'_>,
    own: &Bounds,
    policy: RewritePolicy,
) -> Result<Vec<Output>> {
    let settings = tree.settings.load_full();
    let job = Rewrite {
        io: &core.io,
        tree: tree.id,
        settings: &settings,
        inputs,
        target,
        from: &own.from,
        to: own.to.as_deref(),
        stripes: &core.snapshots.stripes(&core.visible),
        updates: core.options.updates.as_deref(),
        keep_cached: policy.keep_cached,
        large_values: policy.large_values,
    };
    let _share = core.work.shares.take(job.memory_bytes(), core.io.cache.limit() / JOBS_PARTS);
    rewrite(&job)
}

/// The range tombstones in the tables that every snapshot sees, clipped to the bounds.
pub fn total_tombstones(core: &Core, tables: &[(Arc<Table>, u64)], bounds: &Bounds) -> Result<Vec<RangeTombstone>> {
    let oldest = core.snapshots.oldest();
    let mut total = Vec::new();
    for (table, _) in tables.iter().filter(|(table, _)| table.meta.has_tombstones) {
        let body = table.body(&core.io)?;
        let seen_by_all = body.tombstones().iter().filter(|one| oldest.is_none_or(|oldest| oldest >= one.seq));
        for tombstone in seen_by_all {
            let range = Bounds { from: tombstone.from.clone(), to: tombstone.to.clone() };
            if range.overlaps(bounds) {
                let Bounds { from, to } = range.intersection(bounds);
                total.push(RangeTombstone { from, to, seq: tombstone.seq });
            }
        }
    }
    Ok(total)
}
