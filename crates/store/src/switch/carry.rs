//! Changes of the old trees become the same changes of the new ones.

use std::collections::HashMap;

use arbor_base::TreeId;
use arbor_engine::Op;
use arbor_txn::{ReadView, Transaction, View};

use crate::follow::Carry;
use crate::{Error, Result};

pub(super) struct SameRows {
    /// New trees by old ones.
    pub trees: HashMap<TreeId, TreeId>,
}

impl Carry for SameRows {
    fn carry(&mut self, txn: &mut Transaction, op: Op, view: &ReadView) -> Result<()> {
        let new = |tree: &TreeId| self.trees.get(tree).copied();
        match op {
            Op::Put { tree, key, value } => new(&tree).into_iter().for_each(|to| txn.put(to, &*key, &*value)),
            Op::Delete { tree, key } => new(&tree).into_iter().for_each(|to| txn.delete(to, &*key)),
            Op::DeleteRange { tree, from, to: end } => {
                new(&tree).into_iter().for_each(|to| txn.delete_range(to, &*from, end.clone()));
            }
            // The row as it became by this update or later; what came later comes again.
            Op::Update { tree, key, .. } => {
                if let Some(to) = new(&tree) {
                    match view.get(tree, &key)? {
                        Some(row) => txn.put(to, key, &*row),
                        None => txn.delete(to, key),
                    }
                }
            }
            Op::DropTree { tree } if new(&tree).is_some() => return Err(Error::Interrupted),
            Op::DropTree { .. } | Op::CreateTree { .. } => {}
        }
        Ok(())
    }

    fn caught_up(&mut self, _: ReadView) {}
}
