//! Opening: from the newest superblock over the catalogue to all inner nodes, and so to every extent that is in use.
//!
//! Nodes are read level by level from the roots, in the order of the file and many at a time; then they are built from
//! below. Tables and extents that several slots or nodes name become one value. What nothing names is free.
//!
//! Nothing is written. A damaged catalogue or node fails the opening: what it names would be taken for free otherwise.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use arbor_base::TreeId;
use xxhash_rust::xxh3::xxh3_64;

use super::catalog::{self, CatalogTree};
use super::node_block::{ChildBlock, NodeBlock, NodeOnDisk, NodePointer, SlotBlock};
use super::superblock::{self, CatalogPointer, Found, SLOT_BYTES, SLOT_OFFSETS, Superblock};
use super::write::{CapturedTree, Checkpoints, Held};
use crate::io::Io;
use crate::key_index::KeyIndex;
use crate::space::Extent;
use crate::table::{Table, TableMeta};
use crate::tree::{Child, Inner, Run, Slot};
use crate::{Error, Result, Seq};

/// Nodes that stand together are read with one call up to this length.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Unneeded bytes between two nodes that are worth less than another call.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// The durable state, ready to be worked on.
pub struct Recovered {
    pub applied: Seq,
    pub generation: u64,
    pub trees: Vec<CapturedTree>,
    pub checkpoints: Checkpoints,
}

pub fn recover(io: &Arc<Io>) -> Result<Recovered> {
    let superblock = read_superblock(io)?;
    let mut claims = Claims { io, extents: HashMap::new(), tables: HashMap::new() };
    let (rows, catalog) = match superblock.catalog {
        None => (Vec::new(), None),
        Some(pointer) => {
            let extent = claims.claim(pointer.offset, pointer.bytes)?;
            (read_catalog(io, pointer, superblock.generation)?, Some(extent))
        }
    };
    let roots = build_trees(&mut claims, &rows)?;
    let trees = rows.into_iter().zip(roots).map(|(row, root)| captured(row, root)).collect::<Vec<_>>();
    let held = Held::of(&trees, catalog);
    let checkpoints = Checkpoints::new(io.clone(), superblock.generation, superblock.applied, held);
    let Superblock { applied, generation, .. } = superblock;
    Ok(Recovered { applied, generation, trees, checkpoints })
}

fn captured(row: CatalogTree, root: Arc<Inner>) -> CapturedTree {
    let CatalogTree { id, created, settings, rows, bytes, .. } = row;
    CapturedTree { id, created, settings, root, rows, bytes }
}

pub(crate) fn read_superblock(io: &Io) -> Result<Superblock> {
    let file_bytes = io.file.len()?;
    let mut slots = Vec::new();
    for offset in SLOT_OFFSETS {
        let inside = offset + SLOT_BYTES as u64 <= file_bytes;
        slots.push(if inside { Superblock::decode(&io.file.read(offset, SLOT_BYTES as u64)?) } else { Found::Foreign });
    }
    superblock::choose(&slots).map_err(|reason| cannot_open(io, reason))
}

pub(crate) fn read_catalog(io: &Io, pointer: CatalogPointer, generation: u64) -> Result<Vec<CatalogTree>> {
    let bytes = io.file.read(pointer.offset, pointer.bytes)?;
    let trees = (xxh3_64(&bytes) == pointer.checksum).then(|| catalog::decode(&bytes, generation)).flatten();
    trees.ok_or_else(|| corrupt(io, pointer.offset, "the catalogue of trees is damaged"))
}

fn cannot_open(io: &Io, reason: String) -> Error {
    Error::CannotOpen { path: io.file.path().display().to_string(), reason }
}

fn corrupt(io: &Io, offset: u64, context: &str) -> Error {
    let place = format!("{} at {offset}", io.file.path().display());
    Error::Corrupt { place, context: format!("{context}; `arbor salvage` reads what is left") }
}

fn adopt(io: &Io, offset: u64, bytes: u64) -> Result<Extent> {
    let end = offset.saturating_add(bytes);
    let file_bytes = io.space.file_bytes();
    if end > file_bytes {
        let reason = format!("truncated: it ends at {file_bytes}, inside the extent from {offset} to {end}");
        return Err(cannot_open(io, reason));
    }
    io.space.adopt(offset, bytes)
}

/// What was claimed so far, by offset: extents that several values may hold, and tables, which own theirs.
struct Claims<'io> {
    io: &'io Io,
    extents: HashMap<u64, Arc<Extent>>,
    tables: HashMap<u64, Arc<Table>>,
}

impl Claims<'_> {
    fn claim(&mut self, offset: u64, bytes: u64) -> Result<Arc<Extent>> {
        match self.extents.entry(offset) {
            Entry::Occupied(known) if known.get().bytes() == bytes => Ok(known.get().clone()),
            Entry::Occupied(_) => Err(corrupt(self.io, offset, "an extent is named with two lengths")),
            Entry::Vacant(place) => Ok(place.insert(Arc::new(adopt(self.io, offset, bytes)?)).clone()),
        }
    }

    fn table(&mut self, meta: TableMeta) -> Result<Arc<Table>> {
        let offset = meta.offset;
        if let Some(known) = self.tables.get(&offset) {
            return match known.meta == meta {
                true => Ok(known.clone()),
                false => Err(corrupt(self.io, offset, "a table is described in two ways")),
            };
        }
        let blobs = meta.blobs.iter().map(|(offset, bytes)| self.claim(*offset, *bytes)).collect::<Result<Vec<_>>>()?;
        let extent = adopt(self.io, offset, meta.bytes)?;
        let table = Table::adopt(meta, extent, blobs);
        self.tables.insert(offset, table.clone());
        Ok(table)
    }
}

/// A node that was read and waits for its children.
struct Pending {
    tree: TreeId,
    disk: NodeOnDisk,
    block: NodeBlock,
}

/// The roots of all trees.
fn build_trees(claims: &mut Claims<'_>, rows: &[CatalogTree]) -> Result<Vec<Arc<Inner>>> {
    let mut wanted: Vec<(TreeId, NodePointer)> = rows.iter().filter_map(|row| Some((row.id, row.root?))).collect();
    let mut layers = Vec::new();
    while !wanted.is_empty() {
        let layer = read_layer(claims, &wanted)?;
        wanted = layer.iter().flat_map(children_of).collect();
        layers.push(layer);
    }
    let mut below = Vec::new();
    for layer in layers.into_iter().rev() {
        let mut children = below.into_iter();
        below = layer.into_iter().map(|pending| build(claims, pending, &mut children)).collect::<Result<Vec<_>>>()?;
    }
    let mut roots = below.into_iter();
    let root = |row: &CatalogTree| row.root.and_then(|_| roots.next()).unwrap_or_else(Inner::empty);
    Ok(rows.iter().map(root).collect())
}

fn children_of(pending: &Pending) -> impl Iterator<Item = (TreeId, NodePointer)> {
    pending.block.slots.iter().filter_map(|slot| match slot.child {
        ChildBlock::Inner(pointer) => Some((pending.tree, pointer)),
        _ => None,
    })
}

/// The nodes in the order in which they are wanted, read in the order in which they stand.
fn read_layer(claims: &mut Claims<'_>, wanted: &[(TreeId, NodePointer)]) -> Result<Vec<Pending>> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_unstable_by_key(|at| wanted[*at].1.offset());
    let mut layer: Vec<Option<Pending>> = wanted.iter().map(|_| None).collect();
    let mut rest = &order[..];
    while let [first, ..] = rest {
        let begin = wanted[*first].1.offset();
        let mut end = begin;
        let near = |at: &&usize| {
            let pointer = &wanted[**at].1;
            let next_end = pointer.offset() + u64::from(pointer.bytes);
            let fits = end == begin || (pointer.offset() <= end + GAP_BYTES_MAX && next_end - begin <= READ_BYTES_MAX);
            end = if fits { end.max(next_end) } else { end };
            fits
        };
        let (together, others) = rest.split_at(rest.iter().take_while(near).count());
        for at in together {
            let (_, pointer) = &wanted[*at];
            claims.claim(pointer.extent_offset, u64::from(pointer.extent_bytes))?;
        }
        let bytes = claims.io.file.read(begin, end - begin)?;
        for at in together {
            let (tree, pointer) = wanted[*at];
            let from = (pointer.offset() - begin) as usize;
            layer[*at] = Some(read_node(claims, tree, pointer, &bytes[from..from + pointer.bytes as usize])?);
        }
        rest = others;
    }
    Ok(layer.into_iter().flatten().collect())
}

fn read_node(claims: &mut Claims<'_>, tree: TreeId, pointer: NodePointer, bytes: &[u8]) -> Result<Pending> {
    let extent = claims.claim(pointer.extent_offset, u64::from(pointer.extent_bytes))?;
    let block = decode_node(claims.io, tree, &pointer, bytes)?;
    Ok(Pending { tree, disk: NodeOnDisk { pointer, _extent: extent }, block })
}

/// The block that a pointer names, if these bytes are it.
pub(crate) fn decode_node(io: &Io, tree: TreeId, pointer: &NodePointer, bytes: &[u8]) -> Result<NodeBlock> {
    match NodeBlock::decode(bytes) {
        Some((block, sum)) if sum == pointer.checksum && block.tree == tree => Ok(block),
        _ => Err(corrupt(io, pointer.offset(), &format!("an inner node of tree {tree} is damaged"))),
    }
}

/// Takes the children that the block names from `children`, which yields those of all nodes of the layer in order.
fn build(
    claims: &mut Claims<'_>,
    pending: Pending,
    children: &mut impl Iterator<Item = Arc<Inner>>,
) -> Result<Arc<Inner>> {
    let NodeBlock { level, tables, slots, .. } = pending.block;
    let tables = tables.into_iter().map(|meta| claims.table(meta)).collect::<Result<Vec<_>>>()?;
    let pivots = KeyIndex::new(slots.iter().skip(1).map(|slot| &*slot.from));
    let mut built = Vec::with_capacity(slots.len());
    for slot in &slots {
        let child = match slot.child {
            ChildBlock::Empty => Child::Empty,
            ChildBlock::Leaf(number) => Child::Leaf(tables[number].clone()),
            ChildBlock::Inner(pointer) => {
                let child = children.next().filter(|child| child.level + 1 == level);
                Child::Inner(
                    child.ok_or_else(|| corrupt(claims.io, pointer.offset(), "an inner node of another level"))?,
                )
            }
        };
        built.push(Arc::new(Slot { runs: runs(slot, &tables), child, read_work: AtomicU64::new(0) }));
    }
    Ok(Arc::new(Inner::of_parts(Arc::new(pivots), built, level, OnceLock::from(pending.disk))))
}

fn runs(slot: &SlotBlock, tables: &[Arc<Table>]) -> Vec<Run> {
    slot.runs.iter().map(|(number, bytes)| Run { table: tables[*number].clone(), bytes: *bytes }).collect()
}
