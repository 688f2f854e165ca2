//! The placeholder in a tree for an inner node that is damaged.
//!
//! The forest opens all the same. The node, and all below it, is replaced by a leaf whose index is the damaged block: a
//! reader of it gets the error that names the block, jobs put the slot aside, and messages wait above it. What
//! the node named is unknown, so everything that no other node names is taken, by way of that leaf's list of large values.
//! This lasts over checkpoints and openings until the tree is dropped or the keys are deleted as a range: until then salvage
//! finds the rows.

use std::sync::{Arc, OnceLock};

use arbor_base::{TreeId, sometimes};

use super::node_block::NodeOnDisk;
use crate::io::Io;
use crate::space::{DATA_BEGIN, Extent};
use crate::table::{Table, TableMeta};
use crate::tree::{Bounds, Child, Inner, Placed, Slot};
use crate::{Result, Seq};

/// A key that no reader goes beyond.
const LAST_KEY: [u8; 64] = [0xff; 64];
/// Size of a full leaf, so that it is not joined with a neighbour.
const RAW_BYTES: u64 = 1 << 30;

/// Takes all space of the file that is not among `named` (offsets and lengths).
pub(super) fn unnamed(io: &Io, mut named: Vec<(u64, u64)>) -> Result<Vec<Extent>> {
    named.sort_unstable();
    named.push((io.space.file_bytes(), 0));
    let mut taken = Vec::new();
    let mut at = DATA_BEGIN;
    for (offset, bytes) in named {
        if at < offset {
            taken.push(io.space.adopt(at, offset - at)?);
        }
        at = at.max(offset + bytes);
    }
    Ok(taken)
}

/// The node in whose place one cannot be read. `own`: an extent for the leaf; `held`: what it keeps besides.
pub(super) fn node(
    tree: TreeId,
    level: u8,
    bounds: &Bounds,
    disk: NodeOnDisk,
    own: Extent,
    held: &[Arc<Extent>],
    io: &Io,
) -> Arc<Inner> {
    sometimes!("ftree: a placeholder comes for a damaged node");
    let pointer = disk.pointer;
    let meta = TableMeta {
        offset: own.offset(),
        bytes: own.bytes(),
        index_offset: pointer.offset(),
        index_bytes: pointer.bytes,
        // Of less than the index: it cannot match.
        index_checksum: pointer.checksum,
        rows: 1,
        raw_bytes: RAW_BYTES,
        min_seq: Seq::ZERO,
        max_seq: Seq::ZERO,
        first_key: bounds.from.clone(),
        last_key: bounds.to.clone().unwrap_or(LAST_KEY.to_vec()),
        level: 0,
        tree,
        has_tombstones: false,
        has_versions: false,
        made_with: 0,
        blobs: held.iter().map(|extent| (extent.offset(), extent.bytes())).collect(),
    };
    let mut child = Child::Leaf(Table::adopt(meta, own, held.to_vec(), &io.cache));
    for below in 1..level {
        child = Child::Inner(Inner::new(below, vec![placed(bounds, child)]));
    }
    let written = Inner::new(level, vec![placed(bounds, child)]);
    Arc::new(Inner::of_parts(written.pivots.clone(), written.slots.clone(), level, OnceLock::from(disk)))
}

fn placed(bounds: &Bounds, child: Child) -> Placed {
    Placed { from: bounds.from.clone(), slot: Arc::new(Slot::new(Vec::new(), child)) }
}
