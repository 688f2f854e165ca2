//! Merging small leaves and under-filled nodes, and rewriting leaves that would be different today.

use super::{Compaction, Pass};
use crate::flush::absorb::fanout;
use crate::flush::leaf::renew_leaf;
use crate::flush::small::small_groups;
use crate::merge::LargeValuePolicy;
use crate::table::Table;
use crate::tree::install::{edit, has_joinable};
use crate::tree::{Bounds, Child, Inner, Place};
use crate::{Result, TreeSettings};

impl Compaction<'_> {
    /// From below, so that what was joined counts above.
    pub(super) fn merge_nodes(&self) -> Result<Pass> {
        let mut sum = Pass::NOTHING;
        for level in 2..=self.tree.root().level {
            let fanout = fanout(&self.tree);
            sum = sum.and(self.each_node(level, &mut |node, own| {
                Ok(if has_joinable(node, fanout) { self.renew_node(node.level, own) } else { Pass::NOTHING })
            })?);
        }
        Ok(sum)
    }

    /// Makes the node again: what can be joined in it is, and the next checkpoint writes it.
    pub(super) fn renew_node(&self, level: u8, own: &Bounds) -> Pass {
        let place = Place { level, bounds: own.clone() };
        let change = &mut |node: &Inner, own: &Bounds| Some(node.placed(own));
        let done = self.tree.install_root(|root| edit(root, &place, fanout(&self.tree), change));
        if done {
            self.core.installed();
        }
        if done { Pass::CHANGED } else { Pass::NOTHING }
    }

    pub(super) fn renew_leaves(&self) -> Result<Pass> {
        self.each_node(1, &mut |node, own| self.renew_leaves_of(node, own))
    }

    fn renew_leaves_of(&self, node: &Inner, own: &Bounds) -> Result<Pass> {
        let settings = self.tree.settings.load_full();
        let mut groups = small_groups(node, &settings, &|_| false);
        let is_single = |at: &usize| !groups.iter().any(|group| group.contains(at));
        let worn = |at: &usize| node.slots.get(*at).is_some_and(|slot| self.is_worn(&slot.child, &settings));
        let singles: Vec<_> = (0..node.slots.len()).filter(is_single).filter(worn).collect();
        groups.extend(singles.into_iter().map(|at| at..at + 1));
        let mut sum = Pass::NOTHING;
        for group in groups {
            let children = || node.slots.get(group.clone()).unwrap_or_default().iter().map(|slot| &slot.child);
            let bytes: u64 =
                children().map(|child| if let Child::Leaf(leaf) = child { leaf.meta.bytes } else { 0 }).sum();
            let made_otherwise = children().any(|child| matches!(child, Child::Leaf(leaf) if !is_of(leaf, &settings)));
            let large_values = if made_otherwise { LargeValuePolicy::AreRewritten } else { LargeValuePolicy::Stay };
            self.replaced.set(self.replaced.get() + bytes);
            sum = sum.and(self.step(node, own, group, &|job| renew_leaf(self.core, job, large_values))?);
            if sum == Pass::Stopped {
                break;
            }
        }
        Ok(sum)
    }

    /// Returns true if the leaf would be smaller, or made otherwise, if it were written now.
    fn is_worn(&self, child: &Child, settings: &TreeSettings) -> bool {
        let Child::Leaf(leaf) = child else { return false };
        let unseen = || self.core.snapshots.oldest().is_none_or(|oldest| oldest >= leaf.meta.max_seq);
        !leaf.meta.is_elsewhere() && (!is_of(leaf, settings) || (leaf.meta.has_versions && unseen()))
    }
}

fn is_of(leaf: &Table, settings: &TreeSettings) -> bool {
    leaf.meta.made_with == settings.mark()
}
