//! Opening: from the newest superblock over the catalogue to all inner nodes, and so to every extent that is in use.
//!
//! Nodes are read level by level from the roots, in the order of the file and many at a time; then they are built from
//! below. Tables and extents that several slots or nodes name become one value. What nothing names is free.
//!
//! Nothing is written. A damaged catalogue fails the opening: what it names would be taken for free otherwise. In the place
//! of a damaged node comes a leaf that fails every access to it ([`super::lost`]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use arbor_base::{TreeId, paranoid};
use xxhash_rust::xxh3::xxh3_64;

use super::catalog::{self, CatalogTree};
use super::lost;
use super::node_block::{ChildBlock, NodeBlock, NodeOnDisk, NodePointer, SlotBlock};
use super::superblock::{self, CatalogPointer, Found, SLOT_BYTES, SLOT_OFFSETS, Superblock};
use super::write::{CapturedTree, Checkpoints, RetainedState};
use crate::io::Io;
use crate::key_index::KeyIndex;
use crate::space::Extent;
use crate::table::{Table, TableMeta};
use crate::tree::{Bounds, Child, Inner, Run, Slot};
use crate::{Counter, Error, Result, Seq};

/// Nodes that are next to each other are read with one call up to this length.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Unneeded bytes between two nodes that are worth less than another call.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// The durable state, ready to be worked on.
pub struct Recovered {
    pub applied: Seq,
    pub generation: u64,
    pub trees: Vec<CapturedTree>,
    pub checkpoints: Checkpoints,
    /// Inner nodes that are lost, a catalogue of which only one copy is left.
    pub damage: Vec<Error>,
}

pub(crate) fn recover(io: &Arc<Io>) -> Result<Recovered> {
    let superblock = read_superblock(io)?;
    let mut claims = Claims { io, extents: HashMap::new(), tables: HashMap::new() };
    let (mut rows, mut catalog, mut damaged_catalog) = (Vec::new(), Vec::new(), None);
    if let Some(pointer) = superblock.catalog {
        catalog = pointer.offsets().map(|offset| claims.claim(offset, pointer.bytes)).collect::<Result<_>>()?;
        (rows, damaged_catalog) = read_catalog(io, pointer, superblock.generation)?;
    }
    let (roots, mut damage) = build_trees(&mut claims, &rows)?;
    paranoid!(!damage.is_empty() || claims.bytes() == io.space.used_bytes(), "S2: what is in use has a name");
    damage.extend(damaged_catalog);
    let trees = rows.into_iter().zip(roots).map(|(row, root)| captured(row, root)).collect::<Vec<_>>();
    check_newest(io, superblock.applied, &trees)?;
    let held = RetainedState::of(&trees, catalog);
    let checkpoints = Checkpoints::new(io.clone(), superblock.generation, superblock.applied, held);
    let Superblock { applied, generation, .. } = superblock;
    Ok(Recovered { applied, generation, trees, checkpoints, damage })
}

/// A root that is ahead of its state may hold batches that a power failure took from the log, and would hide later ones of
/// the same numbers. Checkpoints on a full disk made such states in releases up to 2026-11-22.
fn check_newest(io: &Io, applied: Seq, trees: &[CapturedTree]) -> Result<()> {
    match trees.iter().map(|tree| (tree.root.totals().newest, tree.id)).max() {
        Some((newest, tree)) if newest > applied => {
            let (newest, applied) = (newest.position(), applied.position());
            let context = format!("tree {tree} holds batch {newest} in a checkpoint of batch {applied}");
            Err(corrupt(io, 0, &context))
        }
        _ => Ok(()),
    }
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

/// The trees, and what was wrong with one of the copies.
pub(crate) fn read_catalog(
    io: &Io,
    pointer: CatalogPointer,
    generation: u64,
) -> Result<(Vec<CatalogTree>, Option<Error>)> {
    let mut damage = corrupt(io, pointer.offset, "the catalogue of trees is damaged");
    let (mut trees, mut damaged) = (None, false);
    for offset in pointer.offsets() {
        let bytes = io.file.read(offset, pointer.bytes)?;
        match (xxh3_64(&bytes) == pointer.checksum).then(|| catalog::decode(&bytes, generation)).flatten() {
            Some(found) => trees = Some(found),
            None => (damage, damaged) = (corrupt(io, offset, "the catalogue of trees is damaged"), true),
        }
    }
    match trees {
        Some(trees) => Ok((trees, damaged.then_some(damage))),
        None => Err(damage),
    }
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

/// Extents and tables claimed so far, by offset: extents that several values may hold, and tables, which own theirs.
struct Claims<'io> {
    io: &'io Io,
    extents: HashMap<u64, Arc<Extent>>,
    tables: HashMap<u64, Arc<Table>>,
}

impl Claims<'_> {
    /// Returns the length of all extents.
    fn bytes(&self) -> u64 {
        let extents = self.extents.values().map(|extent| extent.bytes());
        extents.chain(self.tables.values().map(|table| table.extent_bytes())).sum()
    }

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
        let table = Table::adopt(meta, extent, blobs, &self.io.cache);
        self.tables.insert(offset, table.clone());
        Ok(table)
    }
}

/// A node that is to be read.
struct NodeRequest {
    tree: TreeId,
    pointer: NodePointer,
    /// Unknown of roots.
    level: Option<u8>,
    bounds: Bounds,
}

/// A node that was read and waits for its children.
struct Pending {
    tree: TreeId,
    disk: NodeOnDisk,
    level: u8,
    bounds: Bounds,
    /// `None`: the node is lost.
    content: Option<(Vec<Arc<Table>>, Vec<SlotBlock>)>,
}

impl Pending {
    fn children(&self) -> impl Iterator<Item = NodeRequest> {
        let slots = self.content.iter().flat_map(|(_, slots)| slots.iter().zip(1..));
        slots.filter_map(|(slot, next)| {
            let ChildBlock::Inner(pointer) = slot.child else { return None };
            let (_, slots) = self.content.as_ref()?;
            let from = if next == 1 { self.bounds.from.clone() } else { slot.from.clone() };
            let to = slots.get(next).map(|next| next.from.clone()).or_else(|| self.bounds.to.clone());
            Some(NodeRequest {
                tree: self.tree,
                pointer,
                level: self.level.checked_sub(1),
                bounds: Bounds { from, to },
            })
        })
    }
}

/// Builds the roots of all trees; also returns the damage that was found.
fn build_trees(claims: &mut Claims<'_>, rows: &[CatalogTree]) -> Result<(Vec<Arc<Inner>>, Vec<Error>)> {
    let root =
        |row: &CatalogTree| Some(NodeRequest { tree: row.id, pointer: row.root?, level: None, bounds: Bounds::all() });
    let mut requests: Vec<NodeRequest> = rows.iter().filter_map(root).collect();
    let (mut layers, mut damage) = (Vec::new(), Vec::new());
    while !requests.is_empty() {
        let layer = read_layer(claims, requests, &mut damage)?;
        requests = layer.iter().flat_map(Pending::children).collect();
        layers.push(layer);
    }
    let mut spare = Spare::of(claims, &mut damage)?;
    let mut below = Vec::new();
    for layer in layers.into_iter().rev() {
        let mut children = below.into_iter();
        let build = |pending| build(claims.io, pending, &mut children, &mut spare);
        below = layer.into_iter().map(build).collect::<Result<Vec<_>>>()?;
        assert!(children.next().is_none(), "a node is read because one above names it");
    }
    let mut roots = below.into_iter();
    let root = |row: &CatalogTree| row.root.and_then(|_| roots.next()).unwrap_or_else(Inner::empty);
    let trees = rows.iter().map(root).collect();
    assert!(roots.next().is_none(), "the topmost nodes are the roots that the catalogue names");
    Ok((trees, damage))
}

/// Extents that nothing names, when nodes are lost.
struct Spare {
    /// One for each lost node.
    own: Vec<Extent>,
    held: Vec<Arc<Extent>>,
}

impl Spare {
    fn of(claims: &Claims<'_>, damage: &mut Vec<Error>) -> Result<Spare> {
        if damage.is_empty() {
            return Ok(Spare { own: Vec::new(), held: Vec::new() });
        }
        let extents = claims.extents.values().map(|extent| (extent.offset(), extent.bytes()));
        let tables = claims.tables.values().map(|table| (table.meta.offset, table.meta.bytes));
        let mut unnamed = lost::unnamed(claims.io, extents.chain(tables).collect())?;
        if unnamed.len() < damage.len() {
            return Err(damage.swap_remove(0));
        }
        let own = unnamed.split_off(unnamed.len() - damage.len());
        Ok(Spare { own, held: unnamed.into_iter().map(Arc::new).collect() })
    }
}

/// Returns the nodes in the order of the requests, read in the order of their offsets.
fn read_layer(claims: &mut Claims<'_>, requests: Vec<NodeRequest>, damage: &mut Vec<Error>) -> Result<Vec<Pending>> {
    let mut blocks: Vec<Option<NodeBlock>> = requests.iter().map(|_| None).collect();
    let mut order: Vec<(&NodeRequest, &mut Option<NodeBlock>)> = requests.iter().zip(&mut blocks).collect();
    order.sort_unstable_by_key(|(request, _)| request.pointer.offset());
    let mut rest = order.as_mut_slice();
    while let [(first, _), ..] = rest {
        let begin = first.pointer.offset();
        let mut end = begin;
        let near = |(request, _): &&(&NodeRequest, &mut Option<NodeBlock>)| {
            let pointer = &request.pointer;
            let next_end = pointer.offset() + u64::from(pointer.bytes);
            let fits = end == begin || (pointer.offset() <= end + GAP_BYTES_MAX && next_end - begin <= READ_BYTES_MAX);
            end = if fits { end.max(next_end) } else { end };
            fits
        };
        let count = rest.iter().take_while(near).count();
        let (together, others) = rest.split_at_mut(count);
        for NodeRequest { pointer, .. } in together.iter().map(|(request, _)| request) {
            claims.claim(pointer.extent_offset, u64::from(pointer.extent_bytes))?;
        }
        let bytes = claims.io.file.read(begin, end - begin)?;
        claims.io.counters.add(Counter::NodeBytesRead, end - begin);
        for (NodeRequest { tree, pointer, level, .. }, found) in together {
            let from = (pointer.offset() - begin) as usize;
            let own = bytes.get(from..from + pointer.bytes as usize).unwrap_or_default();
            match decode_node(claims.io, *tree, pointer, own) {
                Ok(block) if level.is_none_or(|level| level == block.level) => **found = Some(block),
                Ok(_) => damage.push(corrupt(claims.io, pointer.offset(), "an inner node of another level")),
                Err(error) => damage.push(error),
            }
        }
        rest = others;
    }
    requests.into_iter().zip(blocks).map(|(request, block)| pending(claims, request, block)).collect()
}

fn pending(claims: &mut Claims<'_>, request: NodeRequest, block: Option<NodeBlock>) -> Result<Pending> {
    let NodeRequest { tree, pointer, level, bounds } = request;
    let extent = claims.claim(pointer.extent_offset, u64::from(pointer.extent_bytes))?;
    let disk = NodeOnDisk { pointer, _extent: extent };
    let Some(NodeBlock { level, tables, slots, .. }) = block else {
        return Ok(Pending { tree, disk, level: level.unwrap_or(1), bounds, content: None });
    };
    let tables = tables.into_iter().map(|meta| claims.table(meta)).collect::<Result<Vec<_>>>()?;
    Ok(Pending { tree, disk, level, bounds, content: Some((tables, slots)) })
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
    io: &Io,
    pending: Pending,
    children: &mut impl Iterator<Item = Arc<Inner>>,
    spare: &mut Spare,
) -> Result<Arc<Inner>> {
    let Pending { tree, disk, level, bounds, content } = pending;
    let Some((tables, slots)) = content else {
        let own = spare.own.pop().expect("there is one for each lost node");
        return Ok(lost::node(tree, level, &bounds, disk, own, &spare.held, io));
    };
    let pivots = KeyIndex::new(slots.iter().skip(1).map(|slot| &*slot.from));
    let table = |number: usize| tables.get(number).cloned().expect("a block names its own tables, or does not decode");
    let mut built = Vec::with_capacity(slots.len());
    for slot in &slots {
        let child = match slot.child {
            ChildBlock::Empty => Child::Empty,
            ChildBlock::Leaf(number) => Child::Leaf(table(number)),
            ChildBlock::Inner(pointer) => {
                let missing = || corrupt(io, pointer.offset(), "an inner node is missing");
                Child::Inner(children.next().ok_or_else(missing)?)
            }
        };
        let runs = slot.runs.iter().map(|(number, bytes)| Run { table: table(*number), bytes: *bytes }).collect();
        built.push(Arc::new(Slot { runs, child, read_work: AtomicU64::new(0) }));
    }
    Ok(Arc::new(Inner::of_parts(Arc::new(pivots), built, level, OnceLock::from(disk))))
}
