//! All messages go down to the leaves.

use super::{Compaction, Pass};
use crate::Result;
use crate::flush::leaf::rewrite_leaf;
use crate::flush::push::push;
use crate::tree::{Bounds, Child, Inner, Run};

impl Compaction<'_> {
    /// Moves down everything that is applied when it begins.
    pub(super) fn drain(&self) -> Result<Pass> {
        self.core.absorb_all()?;
        let mut sum = Pass::NOTHING;
        for level in (1..=self.tree.root().level).rev() {
            sum = sum.and(self.patiently(|| self.each_node(level, &mut |node, own| self.drain_node(node, own)))?);
            if sum == Pass::Stopped {
                break;
            }
        }
        Ok(sum)
    }

    fn drain_node(&self, node: &Inner, own: &Bounds) -> Result<Pass> {
        let mut sum = Pass::NOTHING;
        for (at, slot) in node.slots.iter().enumerate().filter(|(_, slot)| !slot.runs.is_empty()) {
            let runs: u64 = slot.runs.iter().map(Run::table_bytes).sum();
            let leaf = if let Child::Leaf(leaf) = &slot.child { leaf.meta.bytes } else { 0 };
            self.replaced.set(self.replaced.get() + runs + leaf);
            let flush = if node.level == 1 { rewrite_leaf } else { push };
            sum = sum.and(self.step(node, own, at..at + 1, &|job| flush(self.core, job))?);
            if sum == Pass::Stopped {
                break;
            }
        }
        Ok(sum)
    }
}
