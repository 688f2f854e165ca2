//! The shape of the trees as text.

use std::io::Write;
use std::path::Path;

use crate::checkpoint::{self, CapturedTree};
use crate::tree::{Bounds, Child, Inner, Slot};
use crate::{Error, Options, Result};

/// Keys are printed up to this length.
const KEY_BYTES_MAX: usize = 24;

/// Prints all trees of the durable state in a directory that no forest has open: one line per tree, node and slot.
pub fn inspect(dir: &Path, options: &Options, out: &mut dyn Write) -> Result<()> {
    let opened = checkpoint::open_existing(options, dir)?;
    let (recovered, space) = (&opened.recovered, &opened.io.space);
    let printed = writeln!(
        out,
        "{}: applied {:?}, generation {}, {} trees, {} bytes used, {} free",
        opened.io.file.path().display(),
        recovered.applied,
        recovered.generation,
        recovered.trees.len(),
        space.used_bytes(),
        space.free_bytes(),
    );
    printed.map_err(failed)?;
    recovered.trees.iter().try_for_each(|tree| print_tree(tree, out))
}

/// The shape of one tree.
pub fn print_tree(tree: &CapturedTree, out: &mut dyn Write) -> Result<()> {
    let total = Total::of(&tree.root);
    writeln!(
        out,
        "tree {}: {} levels, {} leaves with {} rows in {} bytes, {} bytes in runs, {} bytes on disk",
        tree.id, tree.root.level, total.leaves, total.rows, total.leaf_bytes, total.run_bytes, total.disk_bytes
    )
    .map_err(failed)?;
    print_node(&tree.root, &Bounds::all(), 1, out)
}

#[derive(Default)]
struct Total {
    leaves: u64,
    rows: u64,
    leaf_bytes: u64,
    run_bytes: u64,
    disk_bytes: u64,
}

impl Total {
    fn of(root: &Inner) -> Total {
        let mut total = Total::default();
        total.add(root);
        total
    }

    fn add(&mut self, node: &Inner) {
        for slot in &node.slots {
            self.run_bytes += slot.buffered_bytes();
            self.disk_bytes += slot.runs.iter().map(|run| run.table.meta.disk_bytes()).sum::<u64>();
            match &slot.child {
                Child::Empty => {}
                Child::Inner(inner) => self.add(inner),
                Child::Leaf(leaf) => {
                    self.leaves += 1;
                    self.rows += leaf.meta.rows;
                    self.leaf_bytes += leaf.meta.raw_bytes;
                    self.disk_bytes += leaf.meta.disk_bytes();
                }
            }
        }
    }
}

fn print_node(node: &Inner, own: &Bounds, depth: usize, out: &mut dyn Write) -> Result<()> {
    let indent = "  ".repeat(depth);
    let place = node.disk.get().map_or("not written".to_owned(), |disk| format!("at {}", disk.pointer.offset()));
    writeln!(out, "{indent}level {}, {} slots, {place}", node.level, node.slots.len()).map_err(failed)?;
    for (at, slot) in node.slots.iter().enumerate() {
        let bounds = node.bounds_of(at, own);
        writeln!(out, "{indent}  {} {}", Key(&bounds.from), slot_line(slot)).map_err(failed)?;
        if let Child::Inner(inner) = &slot.child {
            print_node(inner, &bounds, depth + 2, out)?;
        }
    }
    Ok(())
}

fn slot_line(slot: &Slot) -> String {
    let runs = match slot.runs.len() {
        0 => String::new(),
        count => format!("{count} runs of {} bytes over ", slot.buffered_bytes()),
    };
    match &slot.child {
        Child::Empty => format!("{runs}nothing"),
        Child::Inner(_) => format!("{runs}a node"),
        Child::Leaf(leaf) => {
            let meta = &leaf.meta;
            format!("{runs}{} rows, {} bytes in {} at {}", meta.rows, meta.raw_bytes, meta.bytes, meta.offset)
        }
    }
}

/// A key in few characters.
struct Key<'a>(&'a [u8]);

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.0.get(..KEY_BYTES_MAX).unwrap_or(self.0);
        write!(f, "[{}{}]", shown.escape_ascii(), if shown.len() < self.0.len() { "..." } else { "" })
    }
}

fn failed(source: std::io::Error) -> Error {
    Error::Io { context: "printing".to_owned(), source }
}
