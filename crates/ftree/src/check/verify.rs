//! Reads everything and checks every rule that the bytes can show.
//!
//! - structure: levels, pivots inside the bounds of their parents, leaves inside their slots
//! - tables: checksums, order, filters, and what the metas claim ([`super::table`])
//! - I1 and I2 by the tables' sequence numbers: in a slot, later runs are newer than earlier ones that they overlap, and all
//!   are newer than whatever is below
//! - extents: none overlaps another, all lie in the file (recovery checks both), and what the trees name is all that is in use

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arbor_base::TreeId;

use super::{Report, table};
use crate::checkpoint::{self, CapturedTree, Opened};
use crate::io::Io;
use crate::table::Table;
use crate::tree::{Bounds, Child, Inner, Slot};
use crate::{Error, Options, Result, Seq};

/// Verifies the durable state in a directory that no forest has open.
pub fn verify(dir: &Path, options: &Options) -> Result<Report> {
    match checkpoint::open_existing(options, dir) {
        Ok(Opened { io, recovered, .. }) => {
            let mut report = verify_trees(&io, &recovered.trees);
            recovered.damage.iter().for_each(|error| report.find_error("inner nodes", error));
            Ok(report)
        }
        Err(Error::Corrupt { place, context }) => {
            let mut report = Report::default();
            report.find(place, context);
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

/// Verifies a state whose trees are in memory.
pub fn verify_trees(io: &Io, trees: &[CapturedTree]) -> Report {
    let mut walk =
        Walk { io, report: Report::default(), seen: HashMap::new(), extents: HashMap::new(), tree: TreeId(0) };
    for tree in trees {
        walk.tree = tree.id;
        walk.report.trees += 1;
        walk.node(&tree.root, &Bounds::all());
    }
    walk.report.bytes = walk.extents.values().sum();
    walk.report
}

struct Walk<'a> {
    io: &'a Io,
    report: Report,
    /// Tables by offset; each is read once.
    seen: HashMap<u64, TreeId>,
    /// Bytes by offset.
    extents: HashMap<u64, u64>,
    tree: TreeId,
}

/// Newest sequence number in a subtree.
#[derive(Clone, Copy, Default)]
struct Newest(Seq);

impl Walk<'_> {
    fn place(&self, bounds: &Bounds) -> String {
        format!("tree {} from {:?}", self.tree, String::from_utf8_lossy(&bounds.from))
    }

    fn node(&mut self, node: &Inner, bounds: &Bounds) -> Newest {
        self.report.nodes += 1;
        if let Some(disk) = node.disk.get() {
            self.extents.insert(disk.pointer.extent_offset, u64::from(disk.pointer.extent_bytes));
        }
        if node.slots.len() != node.pivots.len() + 1 {
            self.report.find(self.place(bounds), format!("{} slots, {} pivots", node.slots.len(), node.pivots.len()));
            return Newest::default();
        }
        let mut newest = Newest::default();
        for (at, slot) in node.slots.iter().enumerate() {
            let own = node.bounds_of(at, bounds);
            let rises = own.to.as_ref().is_none_or(|to| own.from < *to);
            if !rises || !bounds.covers(&own) {
                self.report.find(self.place(&own), "pivots do not rise inside the bounds of the node");
            }
            newest.0 = newest.0.max(self.slot(slot, node.level, &own).0);
        }
        newest
    }

    fn slot(&mut self, slot: &Slot, level: u8, bounds: &Bounds) -> Newest {
        let below = self.child(&slot.child, level, bounds);
        let mut newest = below;
        let mut passed: Vec<(Bounds, Seq)> = Vec::with_capacity(slot.runs.len());
        for run in &slot.runs {
            let meta = &run.table.meta;
            let reach = self.reach(&run.table);
            let older = passed.iter().filter(|(other, _)| other.overlaps(&reach)).map(|(_, seq)| *seq);
            let older = older.fold(below.0, Seq::max);
            if meta.min_seq <= older && older != Seq::ZERO {
                let context = format!("I1: a run from {:?} is ordered above one up to {older:?}", meta.min_seq);
                self.report.find(self.place(bounds), context);
            }
            newest.0 = newest.0.max(meta.max_seq);
            passed.push((reach, meta.max_seq));
            self.table(&run.table);
        }
        newest
    }

    /// The keys of which a run says something, range tombstones included; all keys when it cannot be read.
    fn reach(&self, run: &Arc<Table>) -> Bounds {
        let meta = &run.meta;
        let after_last = [&meta.last_key[..], &[0]].concat();
        let rows = (meta.rows > 0).then(|| Bounds { from: meta.first_key.clone(), to: Some(after_last) });
        let tombstones = match run.body(self.io) {
            Ok(body) if meta.has_tombstones => body.tombstones().to_vec(),
            Ok(_) => Vec::new(),
            Err(_) => return Bounds::all(),
        };
        let ranges = tombstones.into_iter().map(|one| Bounds { from: one.from, to: one.to });
        let hull = |one: Bounds, other: Bounds| Bounds {
            from: one.from.min(other.from),
            to: one.to.zip(other.to).map(|(one, other)| one.max(other)),
        };
        ranges.chain(rows).reduce(hull).unwrap_or_else(Bounds::all)
    }

    fn child(&mut self, child: &Child, level: u8, bounds: &Bounds) -> Newest {
        match child {
            Child::Empty => Newest::default(),
            Child::Leaf(leaf) => {
                let meta = &leaf.meta;
                if level != 1 || meta.level != 0 {
                    self.report
                        .find(self.place(bounds), format!("a table of level {} below level {level}", meta.level));
                }
                if meta.rows > 0 && !(bounds.contains(&meta.first_key) && bounds.contains(&meta.last_key)) {
                    self.report.find(self.place(bounds), "a leaf has keys outside of its slot");
                }
                self.table(leaf);
                Newest(meta.max_seq)
            }
            Child::Inner(inner) => {
                if inner.level + 1 != level {
                    self.report
                        .find(self.place(bounds), format!("a node of level {} below level {level}", inner.level));
                }
                self.node(inner, bounds)
            }
        }
    }

    fn table(&mut self, table: &Arc<Table>) {
        let meta = &table.meta;
        if let Some(tree) = self.seen.insert(meta.offset, self.tree) {
            if tree != self.tree {
                self.report
                    .find(self.place(&Bounds::all()), format!("the table at {} is tree {tree}'s too", meta.offset));
            }
            return;
        }
        self.extents.insert(meta.offset, meta.bytes);
        self.extents.extend(meta.blobs.iter().copied());
        if meta.tree != self.tree {
            self.report
                .find(self.place(&Bounds::all()), format!("the table at {} is of tree {}", meta.offset, meta.tree));
        }
        self.report.tables += 1;
        table::check(self.io, table, &mut self.report);
    }
}
