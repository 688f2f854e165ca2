//! The block of an inner node on disk: pivots, and pointers to tables and children.
//!
//! A node is written once, after its children. Small nodes of one checkpoint are packed back to back into one extent.
//!
//! | offset | size | |
//! |---|---|---|
//! | 0 | 8 | `ArborNod` |
//! | 8 | 4 | bytes of the block |
//! | 12 | 4 | level; 1: the children are leaves |
//! | 16 | 8 | tree |
//! | 24 | 8 | generation of the checkpoint that wrote it |
//! | 32 | 4 | tables |
//! | 36 | 4 | slots |
//! | 40 | | the tables' metas, each once (length in 4 bytes, then [`TableMeta`]'s bytes) |
//! | | | the slots |
//! | | 8 | xxh3-64 of all before |
//!
//! A slot: lower bound (length in 4 bytes, key; empty in slot 0), child (0; 1 and the leaf's number among the tables; 2 and a
//! pointer of 28 bytes), runs (4), each with its number among the tables (4) and its bytes inside the slot (8).

use std::collections::HashMap;
use std::sync::Arc;

use arbor_base::{Fields, TreeId, paranoid, put_text};
use xxhash_rust::xxh3::xxh3_64;

use crate::space::Extent;
use crate::table::{Table, TableMeta};
use crate::tree::{Child, Inner, Slot};

pub(crate) const MAGIC: [u8; 8] = *b"ArborNod";
const HEADER_BYTES: usize = 40;
const SUM_BYTES: usize = 8;
/// Lower bound, child and runs of a slot take this at least.
const SLOT_BYTES_MIN: usize = 4 + 1 + 4;
const RUN_BYTES: usize = 4 + 8;
const _: () = assert!(HEADER_BYTES == MAGIC.len() + 2 * 4 + 2 * 8 + 2 * 4 && NodePointer::BYTES == 2 * 8 + 3 * 4);

/// Location of a node's block. Several small nodes of one checkpoint share an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodePointer {
    pub extent_offset: u64,
    pub extent_bytes: u32,
    /// Inside the extent.
    pub start: u32,
    pub bytes: u32,
    pub checksum: u64,
}

/// A node that was written: `Inner::disk` is set to this once, and never changes. Cheap to clone.
#[derive(Clone)]
pub struct NodeOnDisk {
    pub pointer: NodePointer,
    /// Keeps the space.
    pub(crate) _extent: Arc<Extent>,
}

impl std::fmt::Debug for NodeOnDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pointer.fmt(f)
    }
}

/// A decoded block.
#[derive(Debug)]
pub(crate) struct NodeBlock {
    pub tree: TreeId,
    pub generation: u64,
    pub level: u8,
    pub tables: Vec<TableMeta>,
    pub slots: Vec<SlotBlock>,
}

#[derive(Debug)]
pub(crate) struct SlotBlock {
    pub from: Vec<u8>,
    /// Numbers among the tables, and bytes inside the slot.
    pub runs: Vec<(usize, u64)>,
    pub child: ChildBlock,
}

#[derive(Debug)]
pub(crate) enum ChildBlock {
    Empty,
    Leaf(usize),
    Inner(NodePointer),
}

impl NodePointer {
    pub const BYTES: usize = 28;

    pub fn offset(&self) -> u64 {
        self.extent_offset.saturating_add(u64::from(self.start))
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.start.checked_add(self.bytes).is_some_and(|end| end <= self.extent_bytes), "{self:?}");
        out.extend_from_slice(&self.extent_offset.to_le_bytes());
        for number in [self.extent_bytes, self.start, self.bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub fn decode(fields: &mut Fields<'_>) -> Option<NodePointer> {
        let extent_offset = fields.u64()?;
        let (extent_bytes, start, bytes) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let pointer = NodePointer { extent_offset, extent_bytes, start, bytes, checksum: fields.u64()? };
        let inside = start.checked_add(bytes).is_some_and(|end| end <= extent_bytes);
        inside.then_some(pointer)
    }
}

/// The block of a node. Requires: its children of kind [`Child::Inner`] were written.
pub(crate) fn encode(tree: TreeId, generation: u64, node: &Inner) -> Vec<u8> {
    assert!(node.slots.len() == node.pivots.len() + 1, "each slot but the first begins at a pivot");
    let mut tables = TableList::default();
    let mut slots = Vec::new();
    for (at, slot) in node.slots.iter().enumerate() {
        let from = at.checked_sub(1).map_or(&[][..], |pivot| node.pivots.key(pivot));
        encode_slot(from, slot, &mut tables, &mut slots);
    }
    let mut out = Vec::with_capacity(HEADER_BYTES + tables.encoded.len() + slots.len() + SUM_BYTES);
    out.extend_from_slice(&MAGIC);
    let bytes = HEADER_BYTES + tables.encoded.len() + slots.len() + SUM_BYTES;
    out.extend_from_slice(&(bytes as u32).to_le_bytes());
    out.extend_from_slice(&u32::from(node.level).to_le_bytes());
    out.extend_from_slice(&tree.0.to_le_bytes());
    out.extend_from_slice(&generation.to_le_bytes());
    out.extend_from_slice(&(tables.numbers.len() as u32).to_le_bytes());
    out.extend_from_slice(&(node.slots.len() as u32).to_le_bytes());
    out.extend_from_slice(&tables.encoded);
    out.extend_from_slice(&slots);
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    assert!(out.len() == bytes, "the block says how long it is");
    paranoid!(is_read_from(&out, tree, node), "a node is read as it was written");
    out
}

fn is_read_from(bytes: &[u8], tree: TreeId, node: &Inner) -> bool {
    NodeBlock::decode(bytes).is_some_and(|(read, _)| {
        let runs = read.slots.iter().map(|slot| slot.runs.len());
        read.tree == tree && read.level == node.level && runs.eq(node.slots.iter().map(|slot| slot.runs.len()))
    })
}

fn encode_slot(from: &[u8], slot: &Slot, tables: &mut TableList, out: &mut Vec<u8>) {
    put_text(out, from);
    match &slot.child {
        Child::Empty => out.push(0),
        Child::Leaf(table) => {
            out.push(1);
            out.extend_from_slice(&tables.number(table).to_le_bytes());
        }
        Child::Inner(node) => {
            out.push(2);
            node.disk.get().expect("children are written before their parents").pointer.encode(out);
        }
    }
    out.extend_from_slice(&(slot.runs.len() as u32).to_le_bytes());
    for run in &slot.runs {
        out.extend_from_slice(&tables.number(&run.table).to_le_bytes());
        out.extend_from_slice(&run.bytes.to_le_bytes());
    }
}

/// The tables of a node in the order in which slots name them first.
#[derive(Default)]
struct TableList {
    numbers: HashMap<u64, u32>,
    encoded: Vec<u8>,
}

impl TableList {
    fn number(&mut self, table: &Arc<Table>) -> u32 {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(table.meta.offset).or_insert(next);
        if number == next {
            let mut meta = Vec::new();
            table.meta.encode(&mut meta);
            put_text(&mut self.encoded, &meta);
        }
        number
    }
}

/// The bytes of the block that may begin here, as it says itself; salvage asks.
pub(crate) fn bytes_of_block(bytes: &[u8]) -> Option<usize> {
    let mut fields = Fields::new(bytes);
    (fields.bytes(MAGIC.len())? == MAGIC).then_some(())?;
    usize::try_from(fields.u32()?).ok().filter(|bytes| *bytes >= HEADER_BYTES + SUM_BYTES)
}

impl NodeBlock {
    /// Decodes a block of exactly these bytes; also returns their checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(NodeBlock, u64)> {
        let (summed, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES)?)?;
        let sum = u64::from_le_bytes(sum.try_into().ok()?);
        if bytes_of_block(bytes)? != bytes.len() || xxh3_64(summed) != sum {
            return None;
        }
        let mut fields = Fields::new(summed);
        fields.bytes(MAGIC.len() + 4)?;
        let level = u8::try_from(fields.u32()?).ok().filter(|level| *level > 0)?;
        let (tree, generation) = (TreeId(fields.u64()?), fields.u64()?);
        let (tables, slots) = (fields.count(4)?, fields.count(SLOT_BYTES_MIN)?);
        let tables = (0..tables).map(|_| decode_table(&mut fields)).collect::<Option<Vec<_>>>()?;
        let slots =
            (0..slots).map(|_| SlotBlock::decode(&mut fields, level, tables.len())).collect::<Option<Vec<_>>>()?;
        let rising = slots.windows(2).skip(1).all(|pair| matches!(pair, [left, right] if left.from < right.from));
        let whole = rising && fields.is_at_end() && slots.first().is_some_and(|slot| slot.from.is_empty());
        whole.then_some((NodeBlock { tree, generation, level, tables, slots }, sum))
    }
}

fn decode_table(fields: &mut Fields<'_>) -> Option<TableMeta> {
    TableMeta::decode(fields.text()?)
}

impl SlotBlock {
    fn decode(fields: &mut Fields<'_>, level: u8, tables: usize) -> Option<SlotBlock> {
        let from = fields.text()?.to_vec();
        let table = |fields: &mut Fields<'_>| Some(fields.u32()? as usize).filter(|number| *number < tables);
        let child = match (fields.u8()?, level) {
            (0, _) => ChildBlock::Empty,
            (1, 1) => ChildBlock::Leaf(table(fields)?),
            (2, 2..) => ChildBlock::Inner(NodePointer::decode(fields)?),
            _ => return None,
        };
        let runs = fields.count(RUN_BYTES)?;
        let runs = (0..runs).map(|_| Some((table(fields)?, fields.u64()?))).collect::<Option<Vec<_>>>()?;
        Some(SlotBlock { from, runs, child })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Run;
    use crate::{Entry, Kind, Seq, TreeSettings};
    use crate::{io::Io, table::TableWriter, tree::node::Placed};
    use proptest::prelude::*;

    fn table(io: &Io, level: u8, key: &[u8]) -> Arc<Table> {
        let mut writer = TableWriter::new(io, TreeId(4), level, &TreeSettings::default(), false);
        writer.push(Entry { key, seq: Seq(9), kind: Kind::Put, value: b"value" }, None);
        writer.finish(Seq(9)).unwrap().unwrap()
    }

    /// Three slots: two runs over a leaf, one of them over nothing, a leaf.
    fn node(io: &Io) -> Arc<Inner> {
        let (leaf, other) = (table(io, 0, b"a"), table(io, 0, b"z"));
        let (wide, narrow) = (table(io, 1, b"c"), table(io, 1, b"b"));
        let run = |table: &Arc<Table>, bytes| Run { table: table.clone(), bytes };
        let placed = |from: &[u8], runs, child| Placed { from: from.to_vec(), slot: Arc::new(Slot::new(runs, child)) };
        let first = placed(b"", vec![run(&wide, 5), run(&narrow, 7)], Child::Leaf(leaf));
        let second = placed(b"k", vec![run(&wide, 6)], Child::Empty);
        Inner::new(1, vec![first, second, placed(b"m\0", vec![], Child::Leaf(other))])
    }

    #[test]
    fn a_node_is_read_as_written() {
        let io = Io::scratch(1 << 20);
        let node = node(&io);
        let bytes = encode(TreeId(4), 3, &node);
        let (block, sum) = NodeBlock::decode(&bytes).unwrap();
        assert_eq!(sum.to_le_bytes(), bytes[bytes.len() - 8..]);
        assert_eq!((block.tree, block.generation, block.level, block.tables.len()), (TreeId(4), 3, 1, 4));
        let from: Vec<&[u8]> = block.slots.iter().map(|slot| &*slot.from).collect();
        assert_eq!(from, [&b""[..], b"k", b"m\0"]);
        for (slot, read) in node.slots.iter().zip(&block.slots) {
            let runs: Vec<_> = slot.runs.iter().map(|run| (&run.table.meta, run.bytes)).collect();
            assert_eq!(
                runs,
                read.runs.iter().map(|(number, bytes)| (&block.tables[*number], *bytes)).collect::<Vec<_>>()
            );
            match (&slot.child, &read.child) {
                (Child::Empty, ChildBlock::Empty) => {}
                (Child::Leaf(leaf), ChildBlock::Leaf(number)) => assert_eq!(leaf.meta, block.tables[*number]),
                _ => panic!("another child"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(at in 0..400usize, with in any::<u8>(), cut in 0..400usize, fix in any::<bool>()) {
            let io = Io::scratch(1 << 20);
            let mut bytes = encode(TreeId(4), 3, &node(&io));
            let at = at % bytes.len();
            bytes[at] ^= with | 1;
            prop_assert!(NodeBlock::decode(&bytes).is_none());
            bytes.truncate(bytes.len() - cut % 3 * (cut % 7));
            if fix && bytes.len() > 64 {
                // Past length and checksum as well.
                let len = bytes.len();
                bytes[8..12].copy_from_slice(&(len as u32).to_le_bytes());
                let sum = xxh3_64(&bytes[..len - 8]);
                bytes[len - 8..].copy_from_slice(&sum.to_le_bytes());
            }
            let _ = NodeBlock::decode(&bytes);
        }
    }
}
