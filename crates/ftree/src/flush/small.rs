//! Neighbouring slots over leaves that together hold less than one leaf may: they are merged by compaction and in idle time.

use std::ops::Range;

use crate::TreeSettings;
use crate::tree::{Child, Inner, Slot};

/// Slots that are merged at once.
const SLOTS_MAX: usize = 32;

/// Groups of neighbours, from one slot to before another. `skip`: slots that are left alone.
pub fn small_groups(node: &Inner, settings: &TreeSettings, skip: &dyn Fn(usize) -> bool) -> Vec<Range<usize>> {
    if node.level != 1 {
        return Vec::new();
    }
    let leaf_bytes = u64::from(settings.leaf_bytes);
    let mut groups: Vec<Range<usize>> = Vec::new();
    let (mut begin, mut sum) = (0, u64::MAX);
    for (at, slot) in node.slots.iter().enumerate() {
        let bytes = if skip(at) { u64::MAX } else { bytes_of(slot) };
        if at > begin && at - begin < SLOTS_MAX && sum.saturating_add(bytes) < leaf_bytes {
            sum += bytes;
            continue;
        }
        groups.push(begin..at);
        (begin, sum) = (at, bytes);
    }
    groups.push(begin..node.slots.len());
    groups.retain(|group| group.len() > 1);
    debug_assert!(groups.is_sorted_by(|one, next| one.end <= next.start), "no slot is in two groups: {groups:?}");
    groups
}

/// Uncompressed bytes of the leaf and of the messages for it.
pub fn bytes_of(slot: &Slot) -> u64 {
    let leaf = match &slot.child {
        Child::Leaf(leaf) => leaf.meta.raw_bytes,
        _ => 0,
    };
    leaf + slot.buffered_bytes()
}
