//! Where an inner node stands in the data file.

use std::any::Any;
use std::sync::Arc;

/// Where a node's block stands. Several small nodes of one checkpoint share an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodePointer {
    pub extent_offset: u64,
    pub extent_bytes: u32,
    /// Inside the extent.
    pub start: u32,
    pub bytes: u32,
    pub checksum: u64,
}

/// A node that was written: `Inner::disk` is set to this once, and never changes. Cheap to clone.
#[derive(Clone)]
pub struct NodeOnDisk {
    pub pointer: NodePointer,
    /// Keeps the space.
    pub(super) extent: Arc<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for NodeOnDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = &self.extent;
        self.pointer.fmt(f)
    }
}
