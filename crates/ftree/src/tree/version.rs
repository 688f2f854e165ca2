//! What readers of one tree load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arbor_base::TreeId;
use arc_swap::ArcSwap;

use super::node::Inner;
use super::stand_in::MemTree;
use crate::{Seq, TreeSettings};

/// One incarnation of a tree: from its creation to its drop.
pub struct Tree {
    pub id: TreeId,
    pub created: Seq,
    /// Of the drop; `u64::MAX` while the tree lives.
    pub dropped: AtomicU64,
    pub settings: ArcSwap<TreeSettings>,
    pub version: ArcSwap<TreeVersion>,
    /// Held while a new version is made from the current one.
    pub(crate) install: Mutex<()>,
}

/// The content of a tree, newest part first: active, frozen from the back, root. Snapshots read it by sequence number.
pub struct TreeVersion {
    pub active: Arc<MemTree>,
    /// Oldest first.
    pub frozen: Vec<Arc<MemTree>>,
    pub root: Arc<Inner>,
}

impl Tree {
    /// Whether a reader at `at` sees this incarnation.
    pub fn exists_at(&self, at: Seq) -> bool {
        self.created <= at && at.0 < self.dropped.load(Ordering::Acquire)
    }
}
