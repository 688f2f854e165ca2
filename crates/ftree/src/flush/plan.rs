//! Which slots of a node are due.
//!
//! Over leaves: a slot that holds a quarter of a leaf, or more than eight runs, and the heaviest ones while the node as a
//! whole holds too much: at 12 % (`buffer_percent`) of 64 leaves of 1 MB that is 6 MB, so a mean slot holds a tenth of its
//! leaf when it is flushed and leaves are rewritten about four times per their size of messages. Above: a slot that holds
//! enough for a run of `run_bytes` for each slot of its child, or more than twelve runs, and the heaviest ones while the node
//! holds two thirds of the bytes that all its slots may, or half of the runs: slots that fill at one rate would all be due at
//! once otherwise, which writers notice. Runs that are too many and together less than half of what makes a slot due by its
//! bytes are combined instead, before anything else: that costs little, and readers wait for it.

use std::cmp::Reverse;

use crate::TreeSettings;
use crate::merge::RUN_MAX;
use crate::tree::{Bounds, Child, Inner, Place, Slot};

const RUNS_OVER_LEAF_MAX: usize = 8;
const RUNS_ABOVE_MAX: usize = 12;

/// A slot that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    pub place: Place,
    pub weight: u64,
    /// Bytes of messages.
    pub bytes: u64,
    /// Its runs are to be combined, and not flushed.
    pub combines: bool,
}

/// The slots of the node that are due, those to combine first and then the heaviest. `busy`: those that are being flushed, which count as flushed.
pub fn due(node: &Inner, own: &Bounds, settings: &TreeSettings, busy: &dyn Fn(&Place) -> bool) -> Vec<Due> {
    let limits = Limits::of(node, settings);
    let mut candidates: Vec<(u64, &Slot, Place)> = Vec::new();
    for (at, slot) in node.slots.iter().enumerate().filter(|(_, slot)| !slot.runs.is_empty()) {
        let place = Place { level: node.level, bounds: node.bounds_of(at, own) };
        if !busy(&place) {
            candidates.push((slot.weight(), slot, place));
        }
    }
    candidates.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.2.bounds.from.cmp(&right.2.bounds.from)));
    let mut waiting: u64 = candidates.iter().map(|(_, slot, _)| slot.buffered_bytes()).sum();
    let mut due = Vec::new();
    candidates.retain(|(weight, slot, place)| {
        let bytes = slot.buffered_bytes();
        let is_due = waiting > limits.node || bytes >= limits.slot;
        if is_due {
            waiting -= bytes;
            due.push(Due { place: place.clone(), weight: *weight, bytes, combines: false });
        }
        !is_due
    });
    let mut runs: usize = candidates.iter().map(|(_, slot, _)| slot.runs.len()).sum();
    candidates.sort_by_key(|(_, slot, _)| Reverse(slot.runs.len()));
    for (weight, slot, place) in candidates {
        if slot.runs.len() <= limits.runs && (runs <= limits.node_runs || slot.runs.len() <= limits.runs / 2) {
            break;
        }
        let bytes = slot.buffered_bytes();
        let combines = bytes < limits.combined && !slot.has_tombstones();
        let (kept, made) = if combines { when_combined(slot, &limits) } else { (0, 0) };
        runs -= slot.runs.len() - kept - made;
        due.push(Due { place, weight: if combines { u64::MAX } else { weight }, bytes, combines });
    }
    due.sort_by_key(|due| Reverse(due.weight));
    due
}

/// Returns how many runs of the slot, the oldest, are left as they are when its runs are combined: up to the last one that is large. What
/// was combined is not written again with each handful of small runs. 0: the small ones behind it are few, or those before it many, so that
/// too many runs would be there still.
pub fn large_runs(node: &Inner, slot: &Slot, settings: &TreeSettings) -> usize {
    when_combined(slot, &Limits::of(node, settings)).0
}

/// Returns how many runs of a slot are left as they are when its runs are combined, and how many at most become of the others.
fn when_combined(slot: &Slot, limits: &Limits) -> (usize, usize) {
    let made = |from: usize| slot.runs.iter().skip(from).map(|run| run.bytes).sum::<u64>() / limits.cut + 1;
    let large = slot.runs.iter().rposition(|run| run.bytes >= limits.combined / 4).map_or(0, |at| at + 1);
    let (small, half) = (slot.runs.len() - large, limits.runs / 2);
    let kept = if small > half && large as u64 + made(large) <= half as u64 { large } else { 0 };
    let made = made(kept) as usize;
    debug_assert!(slot.buffered_bytes() >= limits.combined || kept + made <= half, "{kept} and {made} of {half} runs");
    (kept, made)
}

/// Bytes of messages that wait in this node and those below beyond what each may hold.
pub fn excess(node: &Inner, settings: &TreeSettings) -> u64 {
    node.excess(|| {
        let below = node.slots.iter().map(|slot| match &slot.child {
            Child::Inner(inner) => excess(inner, settings),
            _ => 0,
        });
        below.sum::<u64>() + node.buffered_bytes().saturating_sub(Limits::of(node, settings).node)
    })
}

/// Limits of what may wait.
struct Limits {
    node: u64,
    slot: u64,
    /// Runs of all slots together, beyond which those with the most are due.
    node_runs: usize,
    /// Runs of one slot.
    runs: usize,
    /// Bytes of runs that are combined.
    combined: u64,
    /// Bytes at which a run is cut that becomes of them.
    cut: u64,
}

impl Limits {
    fn of(node: &Inner, settings: &TreeSettings) -> Limits {
        let slots = node.slots.len() as u64;
        let leaf = u64::from(settings.leaf_bytes);
        let above = u64::from(settings.fanout) * u64::from(settings.run_bytes);
        let (node, slot, node_runs, runs) = match node.level {
            1 => (slots * leaf * u64::from(settings.buffer_percent) / 128, leaf / 4, usize::MAX, RUNS_OVER_LEAF_MAX),
            _ => (slots * above * 2 / 3, above, node.slots.len() * RUNS_ABOVE_MAX / 2, RUNS_ABOVE_MAX),
        };
        // large ones are cut: half of the runs that may be are left at most
        let cut = u64::from(settings.run_bytes) * RUN_MAX;
        Limits { node, slot, node_runs, runs, combined: (slot / 2).min(cut * (runs as u64 / 2 - 1)), cut }
    }
}

/// The bounds of a job on the slot at `place`: with a neighbour when both leaves together are small for one.
pub fn with_neighbour(node: &Inner, own: &Bounds, place: &Place, settings: &TreeSettings) -> Bounds {
    let at = node.slot_of(&place.bounds.from);
    let small = u64::from(settings.leaf_bytes) * 35 / 100;
    let size = |at: usize| node.slots.get(at).map(|slot| leaf_bytes(slot) + slot.buffered_bytes());
    let alone = || place.bounds.clone();
    if node.level != 1 || size(at).is_none_or(|bytes| bytes >= small) {
        return alone();
    }
    let fits = |at: &usize| size(*at).is_some_and(|bytes| bytes < 2 * small);
    let neighbour = [Some(at + 1), at.checked_sub(1)].into_iter().flatten().find(fits);
    let Some(neighbour) = neighbour else { return alone() };
    let (first, last) = (at.min(neighbour), at.max(neighbour));
    debug_assert!(last - first == 1 && last < node.slots.len(), "slots {first} and {last} are neighbours");
    Bounds { from: node.bounds_of(first, own).from, to: node.bounds_of(last, own).to }
}

fn leaf_bytes(slot: &Slot) -> u64 {
    match &slot.child {
        Child::Leaf(leaf) => leaf.meta.raw_bytes,
        _ => 0,
    }
}
