//! Batches: the changes that the commit path hands to an engine.

use arbor_base::{Position, TreeId};

use crate::TreeOptions;

/// All changes of one log record, in the order in which they were made.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub position: Position,
    pub ops: Vec<Op>,
}

/// One change of one tree. All but updates are idempotent; an engine passes over batches that it has applied, so a replay
/// does no harm to updates either.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Ensures that the tree exists. An existing tree keeps its content and takes the new options.
    CreateTree {
        tree: TreeId,
        options: TreeOptions,
    },
    /// Ensures that the tree does not exist; its space returns to the file system in the background.
    DropTree {
        tree: TreeId,
    },
    Put {
        tree: TreeId,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// Changes the row, or the lack of one, as the engine's [`UpdateFunction`](crate::UpdateFunction) says. Only for
    /// engines with [`Capabilities::update_messages`](crate::Capabilities).
    Update {
        tree: TreeId,
        key: Vec<u8>,
        update: Vec<u8>,
    },
    /// A missing key is not an error.
    Delete {
        tree: TreeId,
        key: Vec<u8>,
    },
    /// Deletes `from <= key < to`; `to == None` means to the end of the tree.
    DeleteRange {
        tree: TreeId,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
    },
}

impl Op {
    /// The tree that is changed, created or dropped.
    pub fn tree(&self) -> TreeId {
        match self {
            Op::CreateTree { tree, .. }
            | Op::DropTree { tree }
            | Op::Put { tree, .. }
            | Op::Update { tree, .. }
            | Op::Delete { tree, .. }
            | Op::DeleteRange { tree, .. } => *tree,
        }
    }

    /// Bytes of its keys and values.
    pub fn bytes(&self) -> usize {
        match self {
            Op::CreateTree { .. } | Op::DropTree { .. } => 0,
            Op::Put { key, value, .. } => key.len() + value.len(),
            Op::Update { key, update, .. } => key.len() + update.len(),
            Op::Delete { key, .. } => key.len(),
            Op::DeleteRange { from, to, .. } => from.len() + to.as_ref().map_or(0, Vec::len),
        }
    }

    /// The tree whose rows are changed.
    pub fn tree_with_rows(&self) -> Option<TreeId> {
        let is_whole = matches!(self, Op::CreateTree { .. } | Op::DropTree { .. });
        (!is_whole).then(|| self.tree())
    }
}
