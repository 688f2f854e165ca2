//! Writing the inner nodes of a captured state that no checkpoint has written yet.
//!
//! Level by level from below: when a node is encoded, its children's places are known. Blocks go back to back into extents
//! of at most [`PACK_BYTES_MAX`], so that a node that stays does not hold much space of neighbours that went.

use std::sync::Arc;

use arbor_base::{TreeId, paranoid};

use super::node_block::{self, NodeOnDisk, NodePointer};
use crate::io::Io;
use crate::space::UNIT;
use crate::tree::{Child, Inner};
use crate::{Counter, Result};

/// A larger node has an extent of its own.
const PACK_BYTES_MAX: usize = 64 * 1024;

type Unwritten<'a> = (TreeId, &'a Inner);

/// Afterwards every node of these trees is in the file (not synced). Returns the number written. An error leaves some
/// written, and the others to the next checkpoint.
pub(super) fn write<'a>(io: &Io, generation: u64, roots: impl Iterator<Item = (TreeId, &'a Inner)>) -> Result<u64> {
    let mut levels: Vec<Vec<Unwritten<'a>>> = Vec::new();
    for (tree, root) in roots {
        collect(tree, root, &mut levels);
    }
    let mut written = 0;
    for level in levels {
        let mut packer = Packer { io, block_of: Vec::new(), bytes: Vec::new() };
        for (tree, node) in level {
            packer.push(node, node_block::encode(tree, generation, node))?;
            written += 1;
        }
        packer.flush()?;
    }
    Ok(written)
}

/// The node and its descendants by level, those without a place in the file. A node that has one has only such children.
fn collect<'a>(tree: TreeId, node: &'a Inner, levels: &mut Vec<Vec<Unwritten<'a>>>) {
    if node.disk.get().is_some() {
        paranoid!(
            node.is_lost() || node.inner_children().all(|child| child.disk.get().is_some()),
            "{tree}: {}",
            node.level
        );
        return;
    }
    for slot in &node.slots {
        if let Child::Inner(child) = &slot.child {
            collect(tree, child, levels);
        }
    }
    let level = usize::from(node.level);
    if levels.len() <= level {
        levels.resize_with(level + 1, Vec::new);
    }
    levels.get_mut(level).expect("the list is that long").push((tree, node));
}

/// Blocks that will share one extent.
struct Packer<'io, 'a> {
    io: &'io Io,
    /// Nodes with where their blocks begin and end in `bytes`.
    block_of: Vec<(&'a Inner, usize, usize)>,
    bytes: Vec<u8>,
}

impl<'a> Packer<'_, 'a> {
    fn push(&mut self, node: &'a Inner, block: Vec<u8>) -> Result<()> {
        if self.bytes.len() + block.len() > PACK_BYTES_MAX {
            self.flush()?;
        }
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&block);
        self.block_of.push((node, begin, self.bytes.len()));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(UNIT as usize), 0);
        let extent = Arc::new(self.io.space.allocate_reserved(self.bytes.len() as u64)?);
        assert!(extent.bytes() <= u32::MAX.into(), "a pointer holds the length of its extent");
        self.io.file.write(extent.offset(), &self.bytes)?;
        self.io.counters.add(Counter::NodeBytesWritten, self.bytes.len() as u64);
        for (node, begin, end) in self.block_of.drain(..) {
            let sum = self.bytes.get(..end).and_then(<[u8]>::last_chunk).map_or(0, |sum| u64::from_le_bytes(*sum));
            let pointer = NodePointer {
                extent_offset: extent.offset(),
                extent_bytes: extent.bytes() as u32,
                start: begin as u32,
                bytes: (end - begin) as u32,
                checksum: sum,
            };
            let written = node.disk.set(NodeOnDisk { pointer, _extent: extent.clone() });
            written.expect("checkpoints exclude each other, so no other one wrote this node");
        }
        self.bytes.clear();
        Ok(())
    }
}
