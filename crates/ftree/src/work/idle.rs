//! Idle work: done while nothing is written, a few jobs at a time.
//!
//! 1. Slots with messages that readers hit are drained: those scans and gets are as fast afterwards as without messages.
//! 2. Slots over leaves that hold a sixteenth of their leaf or more are drained, and slots above that hold a quarter of what would
//!    make them due. What is less stays where it is until more comes or a reader hits it: it costs hardly any space, and a
//!    leaf is not rewritten for a few rows.
//! 3. Small neighbouring leaves are merged.
//!
//! 2 and 3 visit every node; once nothing is found there, they wait until some tree changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::core::Core;
use crate::flush::Job;
use crate::flush::plan::Due;
use crate::flush::small::small_groups;
use crate::health::key_of;
use crate::tree::{Bounds, Child, Inner, Place, Slot, Tree};
use crate::{Seq, TreeSettings};

/// The part of a leaf that is worth rewriting it.
const LEAF_PART: u64 = 16;
/// The part of a full slot above that is worth moving.
const SLOT_PART: u64 = 4;

/// Progress of idle work.
#[derive(Default)]
pub struct Idle {
    /// Changes of trees, and what was applied, when nothing was found the last time.
    clean_at: Option<(u64, Seq)>,
}

impl Idle {
    /// Queues jobs, up to about `at_most`.
    pub fn clean(&mut self, core: &Core, at_most: usize) {
        let mut queued = 0;
        for tree in &core.buffered() {
            each_node(&tree.root(), &Bounds::all(), &mut |node, own| {
                let was_read = |slot: &Slot| slot.read_work.load(Ordering::Relaxed) > 0;
                queued += core.drain_slots(tree, node, own, at_most.saturating_sub(queued), &was_read);
                queued < at_most
            });
        }
        let changes = (core.changes(), core.visible());
        if queued > 0 || self.clean_at == Some(changes) {
            return;
        }
        for tree in core.trees.all().iter().filter(|tree| tree.is_alive()) {
            let settings = tree.settings.load_full();
            each_node(&tree.root(), &Bounds::all(), &mut |node, own| {
                let worth = |slot: &Slot| is_worth_draining(slot, node.level, &settings);
                queued += core.drain_slots(tree, node, own, at_most.saturating_sub(queued), &worth);
                queued += core.merge_small(tree, node, own, at_most.saturating_sub(queued));
                queued < at_most
            });
        }
        self.clean_at = (queued == 0).then_some(changes);
    }
}

fn is_worth_draining(slot: &Slot, level: u8, settings: &TreeSettings) -> bool {
    let bytes = slot.buffered_bytes();
    match &slot.child {
        Child::Leaf(leaf) => bytes * LEAF_PART >= leaf.meta.raw_bytes,
        _ if level == 1 => bytes > 0,
        _ => bytes * SLOT_PART >= u64::from(settings.fanout) * u64::from(settings.run_bytes),
    }
}

/// The node and those below, until `see` returns false.
fn each_node(node: &Inner, own: &Bounds, see: &mut dyn FnMut(&Inner, &Bounds) -> bool) -> bool {
    see(node, own)
        && node.slots.iter().enumerate().all(|(at, slot)| match &slot.child {
            Child::Inner(inner) => each_node(inner, &node.bounds_of(at, own), see),
            _ => true,
        })
}

impl Core {
    /// Queues slots with messages. Returns their number.
    fn drain_slots(
        &self,
        tree: &Arc<Tree>,
        node: &Inner,
        own: &Bounds,
        at_most: usize,
        filter: &dyn Fn(&Slot) -> bool,
    ) -> usize {
        let mut queued = 0;
        for (at, slot) in node.slots.iter().enumerate().filter(|(_, slot)| !slot.runs.is_empty() && filter(slot)) {
            let place = Place { level: node.level, bounds: node.bounds_of(at, own) };
            if queued < at_most && !self.is_taken(tree, &place) {
                self.queue(
                    tree,
                    node,
                    own,
                    Due { place, weight: slot.weight(), bytes: slot.buffered_bytes(), combines: false },
                );
                queued += 1;
            }
        }
        queued
    }

    /// Queues merges of small neighbouring leaves. Returns their number.
    fn merge_small(&self, tree: &Arc<Tree>, node: &Inner, own: &Bounds, at_most: usize) -> usize {
        let place = |at: usize| Place { level: node.level, bounds: node.bounds_of(at, own) };
        let taken = |at: usize| self.is_taken(tree, &place(at));
        let mut groups = small_groups(node, &tree.settings.load(), &taken);
        groups.truncate(at_most);
        groups.iter().for_each(|group| self.work.scheduler.add(Job::of_slots(tree, node, own, group.clone())));
        groups.len()
    }

    /// Returns true if the slot waits for a job, is worked on, or was put aside.
    pub fn is_taken(&self, tree: &Tree, place: &Place) -> bool {
        self.work.scheduler.is_busy(tree, place) || self.health.is_put_aside(&key_of(tree, place))
    }
}
