//! Reading what is left of a damaged file.
//!
//! As far as superblock, catalogue and nodes are whole, they lead to the tables as usual, and rows come out as of the last
//! checkpoint. What they no longer lead to is looked for in the whole file ([`super::scan`]):
//! - without catalogue, the newest whole chunks of one, else of each tree the topmost node of the newest generation;
//! - without a node or the index of a leaf, all tables of the tree that are found. Of leaves over the same keys the newest counts; messages count
//!   if they are newer than that leaf. Rows that were deleted or of a dropped tree may come out this way.
//!
//! A damaged block loses only its own rows. The report lists what is missing and what was guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arbor_base::{Position, TreeId};

use super::scan::{self, Scan};
use super::{Report, Rows};
use crate::checkpoint::catalog::CatalogTree;
use crate::checkpoint::node_block::{ChildBlock, NodeBlock};
use crate::checkpoint::recover::{decode_node, read_catalog, read_superblock};
use crate::checkpoint::{self, NodePointer};
use crate::io::Io;
use crate::space::Space;
use crate::table::{Table, TableMeta};
use crate::tree::Bounds;
use crate::{Options, Result, Seq};

/// Takes tree, key and value.
pub type Out<'o> = &'o mut dyn FnMut(TreeId, &[u8], &[u8]);

/// Result of a salvage.
#[derive(Debug, Default)]
pub struct Salvaged {
    pub report: Report,
    /// The last batch of the checkpoint that was read; of trees that are not whole it says nothing.
    pub applied: Position,
    /// Trees of which every row of the checkpoint came out.
    pub whole: BTreeSet<TreeId>,
}

/// Hands every row that can be read to `out`, tree by tree; within a tree mostly in order, each key once.
pub fn salvage(dir: &Path, options: &Options, out: Out<'_>) -> Result<Salvaged> {
    let (_lock, io) = checkpoint::open_damaged(options, dir)?;
    let mut salvage = Salvage { io: &io, options, dir, report: Report::default(), scan: None, out };
    let (trees, applied) = salvage.trees()?;
    let mut whole = BTreeSet::new();
    for (id, root) in trees {
        salvage.report.trees += 1;
        let findings = salvage.report.findings.len();
        salvage.tree(id, root)?;
        if applied.is_some() && salvage.report.findings.len() == findings {
            whole.insert(id);
        }
    }
    Ok(Salvaged { report: salvage.report, applied: applied.unwrap_or_default().position(), whole })
}

struct Salvage<'a> {
    io: &'a Io,
    options: &'a Options,
    dir: &'a Path,
    report: Report,
    scan: Option<Arc<Scan>>,
    out: Out<'a>,
}

/// A tree before its nodes are read.
type Found = (TreeId, Option<NodePointer>);

impl Salvage<'_> {
    /// With the checkpoint's sequence number, where superblock and catalogue are whole.
    fn trees(&mut self) -> Result<(Vec<Found>, Option<Seq>)> {
        let known = read_superblock(self.io).and_then(|superblock| match superblock.catalog {
            Some(pointer) => {
                let (trees, _) = read_catalog(self.io, pointer, superblock.generation)?;
                Ok((trees, superblock.applied))
            }
            None => Ok((Vec::new(), superblock.applied)),
        });
        match known {
            Ok((trees, applied)) => Ok((trees.iter().map(|tree| (tree.id, tree.root)).collect(), Some(applied))),
            Err(error) => {
                self.report.find_error(self.io.file.path().display().to_string(), &error);
                Ok((self.scanned_trees()?, None))
            }
        }
    }

    fn scanned_trees(&mut self) -> Result<Vec<Found>> {
        let scan = self.scan()?;
        let rows: Vec<&CatalogTree> = scan.chunks.values().flat_map(|chunk| &chunk.trees).collect();
        let missing = scan.chunks.values().next().map_or(0, |chunk| chunk.chunks as usize) - scan.chunks.len();
        let mut trees: BTreeMap<TreeId, Option<NodePointer>> = rows.iter().map(|row| (row.id, row.root)).collect();
        if rows.is_empty() || missing > 0 {
            let path = self.io.file.path().display().to_string();
            self.report
                .find(path, "parts of the catalogue are lost: trees were found by their nodes, dropped ones as well");
            for (id, root) in &scan.roots {
                trees.entry(*id).or_insert(Some(root.pointer));
            }
            for id in scan.tables.keys() {
                trees.entry(*id).or_insert(None);
            }
            // Without a node there may still be tables.
            let guessed = trees.iter().filter(|(id, root)| root.is_none() && scan.tables.contains_key(id));
            let guessed: Vec<TreeId> =
                guessed.map(|(id, _)| *id).filter(|id| !rows.iter().any(|row| row.id == *id)).collect();
            for id in guessed {
                trees.remove(&id);
                self.report.trees += 1;
                self.guess(id, &Bounds::all())?;
            }
        }
        Ok(trees.into_iter().collect())
    }

    fn scan(&mut self) -> Result<Arc<Scan>> {
        if let Some(scan) = &self.scan {
            return Ok(scan.clone());
        }
        let mut unreadable = Vec::new();
        let scan = Arc::new(scan::scan(self.io, &mut unreadable)?);
        for offset in unreadable {
            self.report.find(format!("{} at {offset}", self.io.file.path().display()), "cannot be read");
        }
        self.scan = Some(scan.clone());
        Ok(scan)
    }

    fn tree(&mut self, id: TreeId, root: Option<NodePointer>) -> Result<()> {
        match root {
            Some(root) => self.node(id, root, &Bounds::all(), &[]),
            None => Ok(()),
        }
    }

    /// `above`: runs of the slots over this node, newest first.
    fn node(&mut self, tree: TreeId, pointer: NodePointer, own: &Bounds, above: &[Arc<Table>]) -> Result<()> {
        let read = self.io.file.read(pointer.offset(), u64::from(pointer.bytes));
        let block = match read.and_then(|bytes| decode_node(self.io, tree, &pointer, &bytes)) {
            Ok(block) => block,
            Err(error) => {
                self.report.find_error(format!("tree {tree}"), &error);
                return self.guess(tree, own);
            }
        };
        self.report.nodes += 1;
        let tables: Vec<Option<Arc<Table>>> = block.tables.iter().map(|meta| self.table(meta)).collect();
        for at in 0..block.slots.len() {
            self.slot(tree, &block, at, own, &tables, above)?;
        }
        Ok(())
    }

    fn slot(
        &mut self,
        tree: TreeId,
        block: &NodeBlock,
        at: usize,
        own: &Bounds,
        tables: &[Option<Arc<Table>>],
        above: &[Arc<Table>],
    ) -> Result<()> {
        let Some(slot) = block.slots.get(at) else { return Ok(()) };
        let from = if at == 0 { own.from.clone() } else { slot.from.clone() };
        let to = block.slots.get(at + 1).map_or(own.to.clone(), |next| Some(next.from.clone()));
        let bounds = Bounds { from, to };
        let table = |number: usize| tables.get(number).cloned().flatten();
        let runs = slot.runs.iter().rev().filter_map(|(number, _)| table(*number));
        let mut path: Vec<Arc<Table>> = above.iter().cloned().chain(runs).collect();
        match slot.child {
            ChildBlock::Inner(pointer) => return self.node(tree, pointer, &bounds, &path),
            ChildBlock::Leaf(number) => match table(number) {
                Some(leaf) if leaf.body(self.io).is_ok() => path.push(leaf),
                _ => return self.guess(tree, &bounds),
            },
            ChildBlock::Empty => {}
        }
        let mut rows = Rows::new(bounds);
        for table in &path {
            rows.add(self.io, table, &mut self.report);
        }
        self.hand_out(tree, rows)
    }

    /// Rows of all tables of the tree that are found.
    fn guess(&mut self, tree: TreeId, bounds: &Bounds) -> Result<()> {
        let place = format!("tree {tree} from {:?}", String::from_utf8_lossy(&bounds.from));
        self.report.find(place, "rows were put together from all tables that were found");
        let scan = self.scan()?;
        let mut metas: Vec<&TableMeta> = scan.tables.get(&tree).into_iter().flatten().collect();
        // A leaf before a run that it has taken in.
        metas.sort_by_key(|meta| (std::cmp::Reverse(meta.max_seq), meta.level));
        let mut rows = Rows::new(bounds.clone());
        let mut seen = BTreeSet::new();
        for meta in metas {
            if let Some(table) = self.table(meta).filter(|_| seen.insert(meta.offset)) {
                rows.add(self.io, &table, &mut self.report);
            }
        }
        self.hand_out(tree, rows)
    }

    fn hand_out(&mut self, tree: TreeId, rows: Rows) -> Result<()> {
        let (io, updates) = (self.io, self.options.updates.as_deref());
        rows.resolve(io, updates, &mut self.report, &mut |key, value| (self.out)(tree, key, value));
        Ok(())
    }

    /// The table without a claim to its space: stale tables overlap others.
    fn table(&mut self, meta: &TableMeta) -> Option<Arc<Table>> {
        let space = Space::new(self.options.disk.clone(), self.dir, self.io.space.file_bytes());
        match space.adopt(meta.offset, meta.bytes.next_multiple_of(crate::space::UNIT)) {
            Ok(extent) => {
                self.report.tables += 1;
                Some(Table::adopt(meta.clone(), extent, Vec::new(), &self.io.cache))
            }
            Err(error) => {
                self.report.find_error(format!("table at {}", meta.offset), &error);
                None
            }
        }
    }
}
