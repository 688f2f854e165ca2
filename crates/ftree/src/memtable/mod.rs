//! What was applied and is not absorbed by the trees yet.

mod skip_list;
mod tree_part;

use std::sync::Arc;

pub use self::skip_list::{Cursor, MemCursor, OwnedMemCursor};
pub use self::tree_part::MemTree;
use arbor_base::TreeId;

/// One generation over all trees.
pub struct Memtable {}

impl Memtable {
    pub fn new(_limit_bytes: u64) -> Arc<Memtable> {
        unimplemented!()
    }

    /// Memory held by the rows, range tombstones and the filter.
    pub fn bytes(&self) -> u64 {
        unimplemented!()
    }

    /// The tree's part, made when it is not there yet.
    pub fn part(&self, _tree: TreeId) -> Arc<MemTree> {
        unimplemented!()
    }

    /// The parts that hold something.
    pub fn dirty_parts(&self) -> Vec<Arc<MemTree>> {
        unimplemented!()
    }

    /// From now on nothing may be inserted.
    pub fn seal(&self) {
        unimplemented!()
    }
}
