//! The rules that hold in memory at any moment, whatever other threads do. Tests check them after every step.
//!
//! Nothing is read from the file: what only the bytes show is for [`crate::check::verify()`].

use crate::core::Core;
use crate::tree::{Bounds, Child, Inner, Slot, Tree};

impl Core {
    /// Panics where a rule is broken.
    pub(crate) fn validate(&self) {
        self.validate_positions();
        self.io.space.validate();
        self.work.scheduler.validate();
        for tree in self.trees.all() {
            let version = tree.version.load_full();
            assert!(version.is_ordered(), "I1: parts of tree {} are newer than its root", tree.id);
            validate_node(&tree, &version.root, &Bounds::all());
        }
    }

    /// `durable <= absorbed <= frozen <= visible`. Each rises only, and is read before what it is compared with.
    fn validate_positions(&self) {
        let (durable, absorbed) = (self.checkpoints.durable(), self.backlog.absorbed());
        assert!(durable <= absorbed, "durable {durable:?}, absorbed {absorbed:?}");
        let frozen = self.writer().frozen;
        assert!(absorbed <= frozen, "absorbed {absorbed:?}, frozen {frozen:?}");
        let visible = self.visible();
        assert!(frozen <= visible, "frozen {frozen:?}, visible {visible:?}");
        let waiting = self.backlog.lock();
        let ends: Vec<_> = waiting.iter().map(|generation| generation.last).collect();
        assert!(ends.is_sorted_by(|one, next| one < next), "B1: generations wait in order: {ends:?}");
    }
}

fn validate_node(tree: &Tree, node: &Inner, own: &Bounds) {
    assert!(node.slots.len() == node.pivots.len() + 1, "{} slots, {} pivots", node.slots.len(), node.pivots.len());
    for (at, slot) in node.slots.iter().enumerate() {
        let bounds = node.bounds_of(at, own);
        let rises = bounds.to.as_ref().is_none_or(|to| bounds.from < *to);
        assert!(rises && own.covers(&bounds), "{bounds:?} is not inside of {own:?}");
        validate_runs(slot, &bounds);
        match &slot.child {
            Child::Empty => {}
            Child::Inner(inner) => {
                assert!(inner.level + 1 == node.level, "a node of level {} below level {}", inner.level, node.level);
                validate_node(tree, inner, &bounds);
            }
            Child::Leaf(leaf) if leaf.meta.is_elsewhere() => {}
            Child::Leaf(leaf) => {
                let meta = &leaf.meta;
                assert!(node.level == 1 && meta.level == 0, "a table of level {} below {}", meta.level, node.level);
                assert!(meta.tree == tree.id, "a leaf of tree {} in tree {}", meta.tree, tree.id);
                let inside = bounds.contains(&meta.first_key) && bounds.contains(&meta.last_key);
                assert!(inside, "a leaf from {:?} to {:?} in {bounds:?}", meta.first_key, meta.last_key);
            }
        }
    }
}

/// I1 and I2, as far as the metas show them.
fn validate_runs(slot: &Slot, bounds: &Bounds) {
    let mut below = Slot::new(Vec::new(), slot.child.clone());
    for run in &slot.runs {
        assert!(run.table.meta.level > 0, "a leaf is a run in {bounds:?}");
        assert!(below.is_older_than(run), "I1: what is under a run in {bounds:?} is older");
        below.runs.push(run.clone());
    }
}
