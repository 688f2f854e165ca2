//! Checks of operations before any of them is applied: what an engine would refuse must neither change a part of it nor reach the log.

use std::collections::HashMap;

use arbor_base::TreeId;

use crate::{Batch, Error, Op, Result, TreeOptions, limits};

/// Checks batches as a whole. `exists` says which trees there are before the first one.
///
/// Errors: those of [`Engine::apply`](crate::Engine::apply) that are about the batches and not about the engine.
pub fn check_batches(
    batches: &[&Batch],
    exists: impl Fn(TreeId) -> bool,
    takes_updates: Checked<&'static str>,
    check_options: impl Fn(&TreeOptions) -> Result<()>,
) -> Result<()> {
    let mut trees = CheckedTrees::default();
    for op in batches.iter().flat_map(|batch| &batch.ops) {
        check_row(op, || takes_updates.map_err(Error::no_updates))?;
        if let Op::CreateTree { options, .. } = op {
            check_options(options)?;
        }
        trees.check(op, |tree| if exists(tree) { Ok(()) } else { Err(Error::UnknownTree(tree)) })?;
    }
    Ok(())
}

/// Checks the sizes of an operation's keys and values, and an update with `takes_updates`.
pub fn check_row(op: &Op, takes_updates: impl FnOnce() -> Result<()>) -> Result<()> {
    match op {
        Op::Put { key, value, .. } => limits::check_row(key, value),
        Op::Update { key, update, .. } => takes_updates().and_then(|()| limits::check_row(key, update)),
        Op::Delete { key, .. } => limits::check_row(key, &[]),
        Op::DeleteRange { from, to, .. } => {
            limits::check_row(from, &[])?;
            limits::check_row(to.as_deref().unwrap_or_default(), &[])
        }
        Op::CreateTree { .. } | Op::DropTree { .. } => Ok(()),
    }
}

type Checked<E> = std::result::Result<(), E>;

/// The trees that exist after the operations that were checked.
#[derive(Debug, Default)]
pub struct CheckedTrees {
    /// Created (true) or dropped by an operation before.
    changed: HashMap<TreeId, bool>,
    /// A tree that exists: most operations are about the same one as the operation before.
    last: Option<TreeId>,
}

impl CheckedTrees {
    /// Checks that the tree whose rows `op` changes exists; `exists` is asked about trees that no operation before created or dropped.
    pub fn check<E: From<Error>>(&mut self, op: &Op, exists: impl FnOnce(TreeId) -> Checked<E>) -> Checked<E> {
        match op {
            Op::CreateTree { tree, .. } => {
                self.changed.insert(*tree, true);
            }
            Op::DropTree { tree } => {
                self.changed.insert(*tree, false);
                self.last = self.last.filter(|last| last != tree);
            }
            Op::Put { .. } | Op::Update { .. } | Op::Delete { .. } | Op::DeleteRange { .. } => {
                let tree = op.tree();
                if self.last == Some(tree) {
                    return Ok(());
                }
                match self.changed.get(&tree) {
                    Some(true) => {}
                    Some(false) => return Err(Error::UnknownTree(tree).into()),
                    None => exists(tree)?,
                }
                self.last = Some(tree);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arbor_base::Position;

    use super::*;
    use crate::limits::KEY_BYTES_MAX;

    fn check(ops: Vec<Op>, expect: &str) {
        let batch = Batch { position: Position(1), ops };
        let options = |options: &TreeOptions| options.check_names("test", &["known"]);
        let found = check_batches(&[&batch], |tree| tree.0 < 10, Err("test"), options);
        let found = found.map_or_else(|error| error.to_string(), |()| "applies".to_owned());
        assert!(found.contains(expect), "{:?}: {found}", batch.ops);
    }

    fn create(tree: u64, setting: &str) -> Op {
        let settings = vec![(setting.to_owned(), "1".to_owned())];
        Op::CreateTree { tree: TreeId(tree), options: TreeOptions { settings } }
    }

    fn put(tree: u64, key_bytes: usize) -> Op {
        Op::Put { tree: TreeId(tree), key: vec![0; key_bytes], value: Vec::new() }
    }

    fn drop_tree(tree: u64) -> Op {
        Op::DropTree { tree: TreeId(tree) }
    }

    #[test]
    fn each_operation_sees_the_trees_that_those_before_it_leave() {
        check(vec![put(1, 1), put(1, 2), put(2, 1)], "applies");
        check(vec![put(10, 1)], "10");
        check(vec![create(10, "known"), put(10, 1)], "applies");
        check(vec![put(10, 1), create(10, "known")], "10");
        check(vec![put(1, 1), drop_tree(1), put(1, 1)], "1");
        check(vec![put(1, 1), drop_tree(1), put(2, 1)], "applies");
        check(vec![drop_tree(1), create(1, "known"), put(1, 1)], "applies");
        check(vec![drop_tree(11)], "applies");
    }

    #[test]
    fn rows_options_and_updates_are_checked() {
        check(vec![put(1, KEY_BYTES_MAX + 1)], "exceeds the maximum");
        check(vec![Op::Delete { tree: TreeId(1), key: vec![0; KEY_BYTES_MAX + 1] }], "exceeds the maximum");
        let to = Some(vec![0; KEY_BYTES_MAX + 1]);
        check(vec![Op::DeleteRange { tree: TreeId(1), from: Vec::new(), to }], "exceeds the maximum");
        check(vec![create(10, "strange")], "strange");
        check(vec![Op::Update { tree: TreeId(1), key: Vec::new(), update: Vec::new() }], "test");
    }
}
