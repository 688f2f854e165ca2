//! Relocation: tables that are far back in the file move to free space before, so that the file can be cut.
//!
//! "Far back" is after where the file would end without gaps: what is in use there is no more than what is free before. Large
//! ones move first, as long as there are large gaps. A table moves as it is stored, so that costs reading and writing it once. Large values move with a leaf job,
//! since rows point to them.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{Compaction, Pass};
use crate::checkpoint::NodeOnDisk;
use crate::flush::Flushed;
use crate::flush::absorb::fanout;
use crate::flush::leaf::renew_leaf;
use crate::merge::LargeValuePolicy;
use crate::table::Table;
use crate::tree::install::{edit, node_behind};
use crate::tree::{Bounds, Child, Inner, Place, Slot};
use crate::{Counter, Result};

/// A leaf, its large values or an inner node to be moved to the front of the file.
struct Relocation {
    offset: u64,
    bytes: u64,
    kind: RelocationKind,
    /// Its place in the tree: its node's level and its lower bound.
    level: u8,
    from: Vec<u8>,
}

#[derive(Clone, Copy)]
enum RelocationKind {
    Leaf,
    LargeValues,
    Node,
}

impl Compaction<'_> {
    pub(super) fn relocate(&self) -> Result<Pass> {
        let end = self.core.io.space.dense_end();
        let mut relocations = Vec::new();
        collect(&self.tree.root(), &Bounds::all(), end, &mut relocations);
        relocations.sort_by_key(|item| Reverse((item.bytes, item.offset)));
        let mut sum = Pass::NOTHING;
        for relocation in relocations {
            if !self.should_continue()? {
                return Ok(Pass::Stopped);
            }
            sum = sum.and(self.move_one(&relocation, end)?);
        }
        Ok(sum)
    }

    fn move_one(&self, relocation: &Relocation, end: u64) -> Result<Pass> {
        let space = &self.core.io.space;
        let root = self.tree.root();
        let Some((node, own)) = node_behind(&root, Bounds::all(), relocation.level, &relocation.from) else {
            return Ok(Pass::NOTHING);
        };
        if let RelocationKind::Node = relocation.kind {
            let has_room = |disk: &NodeOnDisk| space.has_room_below(disk.pointer.bytes.into(), relocation.offset);
            let moves =
                node.disk.get().is_some_and(|disk| disk.pointer.extent_offset == relocation.offset && has_room(disk));
            return Ok(if moves { self.renew_node(relocation.level, &own) } else { Pass::NOTHING });
        }
        let at = node.slot_of(&relocation.from);
        let Some(Child::Leaf(leaf)) = node.slots.get(at).map(|slot| &slot.child) else { return Ok(Pass::NOTHING) };
        match relocation.kind {
            RelocationKind::Leaf
                if leaf.meta.offset == relocation.offset
                    && space.has_room_below(leaf.meta.bytes, relocation.offset) =>
            {
                self.step(node, &own, at..at + 1, &|job| self.move_leaf(leaf, &job.place))
            }
            RelocationKind::LargeValues => {
                let moves = |blob: &(u64, u64)| blob.0 >= end && space.has_room_below(blob.1, blob.0);
                match leaf.meta.blobs.iter().any(moves) {
                    true => self.step(node, &own, at..at + 1, &|job| {
                        renew_leaf(self.core, job, LargeValuePolicy::MoveFrom(end))
                    }),
                    false => Ok(Pass::NOTHING),
                }
            }
            _ => Ok(Pass::NOTHING),
        }
    }

    fn move_leaf(&self, leaf: &Arc<Table>, place: &Place) -> Result<Flushed> {
        let io = &self.core.io;
        let Some(extent) = io.space.allocate_below(leaf.meta.bytes, leaf.meta.offset) else {
            return Ok(Flushed::Refused);
        };
        let moved = leaf.moved_to(extent, io)?;
        let change = &mut |node: &Inner, own: &Bounds| {
            let at = node.slot_of(&place.bounds.from);
            let slot = node.slots.get(at).filter(|slot| slot.child.is(&Child::Leaf(leaf.clone())))?;
            let mut content = node.placed(own);
            content.get_mut(at)?.slot = Arc::new(Slot::with_child(slot, Child::Leaf(moved.clone())));
            Some(content)
        };
        let done = self.tree.install_root(|root| edit(root, place, fanout(&self.tree), change));
        io.counters.add(Counter::TablesMoved, u64::from(done));
        Ok(if done { Flushed::Done(0) } else { Flushed::Refused })
    }
}

fn collect(node: &Inner, own: &Bounds, end: u64, relocations: &mut Vec<Relocation>) {
    let mut see = |(offset, bytes): (u64, u64), kind: RelocationKind, from: &[u8]| {
        if offset >= end {
            relocations.push(Relocation { offset, bytes, kind, level: node.level, from: from.to_vec() });
        }
    };
    if let Some(disk) = node.disk.get().filter(|_| !node.is_lost()) {
        see((disk.pointer.extent_offset, disk.pointer.bytes.into()), RelocationKind::Node, &own.from);
    }
    for (at, slot) in node.slots.iter().enumerate() {
        let Child::Leaf(leaf) = &slot.child else { continue };
        if !leaf.meta.is_elsewhere() {
            let from = node.bounds_of(at, own).from;
            see((leaf.meta.offset, leaf.meta.bytes), RelocationKind::Leaf, &from);
            if let Some(last) = leaf.meta.blobs.iter().max() {
                see(*last, RelocationKind::LargeValues, &from);
            }
        }
    }
    for (at, slot) in node.slots.iter().enumerate() {
        if let Child::Inner(inner) = &slot.child {
            collect(inner, &node.bounds_of(at, own), end, relocations);
        }
    }
}
