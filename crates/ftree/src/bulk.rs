//! Filling a tree from sorted rows: leaves are written one after the other, inner nodes are built above them.
//!
//! The rows get no sequence number: they are visible to every reader of the tree. So the result is installed as a new incarnation
//! of the tree, which readers from before do not see; to them the tree stays as empty as it was.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_engine::limits;

use crate::blob;
use crate::io::Io;
use crate::table::{Table, TableWriter};
use crate::tree::node::Placed;
use crate::tree::{Child, Inner, Slot};
use crate::{Entry, Kind, Result, Seq, TreeSettings};

/// Fill of leaves and nodes, in percent of the size at which one would be split.
const FILL_PERCENT: u64 = 95;

/// A tree's content that is not visible yet. Dropping it frees its space.
pub struct Loaded {
    pub root: Arc<Inner>,
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// Errors: rows that do not rise strictly or are beyond the limits; no space.
pub fn load(
    io: &Io,
    tree: TreeId,
    settings: &TreeSettings,
    rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<Loaded> {
    let mut loader = Loader { io, tree, settings, writer: None, leaves: Vec::new(), rows: 0, bytes: 0 };
    let mut last: Option<Vec<u8>> = None;
    for (key, value) in rows {
        limits::check_row(&key, &value)?;
        limits::check_ascending(last.as_deref(), &key)?;
        loader.push(&key, &value)?;
        last = Some(key);
    }
    loader.finish_leaf()?;
    let in_leaves: u64 = loader.leaves.iter().map(|leaf| leaf.meta.rows).sum();
    assert!(in_leaves == loader.rows, "{in_leaves} of {} rows are in leaves", loader.rows);
    Ok(Loaded { root: root_over(loader.leaves, settings), rows: loader.rows, bytes: loader.bytes })
}

struct Loader<'a> {
    io: &'a Io,
    tree: TreeId,
    settings: &'a TreeSettings,
    writer: Option<TableWriter<'a>>,
    leaves: Vec<Arc<Table>>,
    rows: u64,
    bytes: u64,
}

impl<'a> Loader<'a> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (io, tree, settings) = (self.io, self.tree, self.settings);
        let writer = self.writer.get_or_insert_with(|| TableWriter::new(io, tree, 0, settings, false));
        let entry = Entry { key, seq: Seq::ZERO, kind: Kind::Put, value };
        if value.len() > settings.blob_bytes as usize {
            let (pointer, extent) = blob::write(io, value)?;
            writer.push(Entry { kind: Kind::PutBlob, value: &pointer.encode(), ..entry }, Some(extent));
        } else {
            writer.push(entry, None);
        }
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        if writer.raw_bytes() >= u64::from(settings.leaf_bytes) * FILL_PERCENT / 100 {
            self.finish_leaf()?;
        }
        Ok(())
    }

    fn finish_leaf(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.leaves.extend(writer.finish(Seq::ZERO)?);
        }
        Ok(())
    }
}

/// Inner nodes over leaves in order, each as full as it should be.
fn root_over(leaves: Vec<Arc<Table>>, settings: &TreeSettings) -> Arc<Inner> {
    let follow = |one: &Arc<Table>, next: &Arc<Table>| one.meta.last_key < next.meta.first_key;
    assert!(leaves.is_sorted_by(follow), "leaves of a bulk load follow each other");
    let leaf = |table: Arc<Table>| Placed {
        from: table.meta.first_key.clone(),
        slot: Arc::new(Slot::new(Vec::new(), Child::Leaf(table))),
    };
    let mut placed: Vec<Placed> = leaves.into_iter().map(leaf).collect();
    let Some(first) = placed.first_mut() else { return Inner::empty() };
    // The leftmost slot begins where the tree begins.
    first.from.clear();
    let fanout = (u64::from(settings.fanout) * FILL_PERCENT / 100).max(2) as usize;
    let mut level = 1;
    while placed.len() > fanout {
        placed = parents(placed, fanout, level);
        level += 1;
    }
    Inner::new(level, placed)
}

/// Nodes of about equal size over the slots, as slots of the level above.
fn parents(mut placed: Vec<Placed>, fanout: usize, level: u8) -> Vec<Placed> {
    let nodes = placed.len().div_ceil(fanout);
    let mut parents = Vec::with_capacity(nodes);
    for left in (1..=nodes).rev() {
        let others = placed.split_off(placed.len().div_ceil(left));
        let Some(from) = placed.first().map(|first| first.from.clone()) else { continue };
        let child = Child::Inner(Inner::new(level, placed));
        parents.push(Placed { from, slot: Arc::new(Slot::new(Vec::new(), child)) });
        placed = others;
    }
    parents
}
