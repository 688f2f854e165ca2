//! What the commit path hands to an engine.

use arbor_base::{Position, TreeId};

use crate::TreeOptions;

/// All changes of one log record, in the order in which they were made.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub position: Position,
    pub ops: Vec<Op>,
}

/// One change of one tree. Operations are idempotent, since recovery may replay batches that an engine had applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Ensures that the tree exists. An existing tree keeps its content.
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
