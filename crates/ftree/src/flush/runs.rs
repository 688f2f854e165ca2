//! What jobs write, by way of [`rewrite`].

use std::sync::Arc;

use super::leaf::Consumed;
use crate::forest::Core;
use crate::memtable::MemTree;
use crate::merge::{Input, Messages, Output, Rewrite, Target, rewrite};
use crate::table::Table;
use crate::tree::{Bounds, Child, Inner, Tree};
use crate::{RangeTombstone, Result};

/// A run that waits to be given to slots.
pub struct NewRun {
    pub table: Arc<Table>,
    /// The slots that it was made for, and how much each gets.
    parts: Vec<(Bounds, u64)>,
}

impl NewRun {
    /// How much lies within; `None`: nothing. A slot that split since gets as much as what it was a part of.
    pub fn bytes_within(&self, bounds: &Bounds) -> Option<u64> {
        let parts = self.parts.iter().filter(|(part, _)| part.overlaps(bounds));
        parts.map(|(_, bytes)| *bytes).reduce(|sum, bytes| sum + bytes)
    }
}

/// A part of a memtable for the slots of the root.
pub fn of_part(core: &Core, tree: &Tree, part: &Arc<MemTree>, root: &Inner) -> Result<Vec<NewRun>> {
    let inputs =
        [Input { messages: Messages::Memtable(part.clone()), from: Vec::new(), to: None, bytes: part.bytes() }];
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

fn for_slots(core: &Core, tree: &Tree, inputs: &[Input], node: &Inner, own: &Bounds) -> Result<Vec<NewRun>> {
    let target = Target::Runs { level: node.level, pivots: &node.pivots };
    let outputs = run(core, tree, inputs, target, own)?;
    let part = |(slot, bytes): &(usize, u64)| (node.bounds_of(*slot, own), *bytes);
    let new_run = |output: Output| NewRun { parts: output.slots.iter().map(part).collect(), table: output.table };
    Ok(outputs.into_iter().map(new_run).collect())
}

/// The leaves that take the place of what is consumed.
pub fn leaves(core: &Core, tree: &Tree, consumed: &[Consumed]) -> Result<Vec<(Vec<u8>, Arc<Table>)>> {
    let newest_first = |slot: &Consumed| slot.runs.iter().rev().map(|run| input(&run.0, run.1, &slot.bounds)).collect();
    let inputs: Vec<Input> = consumed.iter().flat_map::<Vec<Input>, _>(newest_first).collect();
    let old: Vec<Arc<Table>> = consumed
        .iter()
        .filter_map(|slot| match &slot.child {
            Child::Leaf(leaf) => Some(leaf.clone()),
            _ => None,
        })
        .collect();
    let from = consumed.first().map(|slot| slot.bounds.from.clone()).unwrap_or_default();
    let own = Bounds { from, to: consumed.last().and_then(|slot| slot.bounds.to.clone()) };
    let outputs = run(core, tree, &inputs, Target::Leaves(&old), &own)?;
    let stays = |table: &Arc<Table>| old.iter().any(|leaf| Arc::ptr_eq(leaf, table));
    let renewed = |table: Arc<Table>| if stays(&table) { table.renewed() } else { table };
    Ok(outputs.into_iter().map(|output| (output.from, renewed(output.table))).collect())
}

fn input(table: &Arc<Table>, bytes: u64, bounds: &Bounds) -> Input {
    Input { messages: Messages::Run(table.clone()), from: bounds.from.clone(), to: bounds.to.clone(), bytes }
}

fn run(core: &Core, tree: &Tree, inputs: &[Input], target: Target<'_>, own: &Bounds) -> Result<Vec<Output>> {
    let settings = tree.settings.load_full();
    rewrite(&Rewrite {
        io: &core.io,
        tree: tree.id,
        settings: &settings,
        inputs,
        target,
        from: &own.from,
        to: own.to.as_deref(),
        stripes: &core.snapshots.stripes(&core.visible),
        updates: core.options.updates.as_deref(),
        keep_cached: true,
    })
}

/// The range tombstones in the tables that no snapshot looks behind, clipped to the bounds.
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
