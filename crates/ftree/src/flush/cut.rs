//! Deleting a range by unlinking: slots wholly inside a range tombstone that every snapshot sees lose their runs and
//! their child at once. The rest at the edges is left to the tombstone, which travels down.

use std::sync::Arc;

use arbor_base::sometimes;

use crate::RangeTombstone;
use crate::tree::{Bounds, Child, Inner, Placed, Slot};

/// The node's content without what the tombstone covers; `None`: it covers no slot that holds anything.
/// Requires: all in the node is older than the tombstone, and no snapshot that is registered is.
pub fn cut(node: &Inner, own: &Bounds, tombstone: &RangeTombstone) -> Option<Vec<Placed>> {
    debug_assert!(node.totals().newest < tombstone.seq, "I2: {tombstone:?} is newer than all below it");
    let range = Bounds { from: tombstone.from.clone(), to: tombstone.to.clone() };
    let mut changed = false;
    let mut content = node.placed(own);
    for (at, placed) in content.iter_mut().enumerate().skip(node.slot_of(&range.from)) {
        let bounds = node.bounds_of(at, own);
        if !bounds.overlaps(&range) {
            break;
        }
        if let Some(slot) = cut_slot(&placed.slot, &bounds, &range, tombstone) {
            placed.slot = Arc::new(slot);
            changed = true;
        }
    }
    changed.then_some(content)
}

fn cut_slot(slot: &Slot, bounds: &Bounds, range: &Bounds, tombstone: &RangeTombstone) -> Option<Slot> {
    if slot.is_void() {
        return None;
    }
    if range.covers(bounds) {
        sometimes!("ftree: a deleted range is unlinked");
        return Some(Slot::void());
    }
    let Child::Inner(inner) = &slot.child else { return None };
    let content = cut(inner, bounds, tombstone)?;
    Some(slot.with_child(crate::tree::install::child_of(inner.level, content)))
}
