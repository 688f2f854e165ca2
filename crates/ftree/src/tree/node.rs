//! Inner nodes: pivots and slots. They are always in memory and never change; a change copies the path from the root.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use super::stand_in::{KeyIndex, NodeOnDisk, Table};

pub struct Inner {
    /// `pivots.key(i)` is the lower bound of slot `i + 1`; slot 0 begins where the node begins.
    pub pivots: Arc<KeyIndex>,
    /// One more than pivots.
    pub slots: Vec<Arc<Slot>>,
    /// 1: the children are leaves.
    pub level: u8,
    /// Where the last checkpoint wrote this node; set once.
    pub disk: OnceLock<NodeOnDisk>,
}

/// What waits for one child, and the child.
pub struct Slot {
    /// Oldest first, each clipped to the slot's bounds. One table may stand in several neighbouring slots.
    pub runs: Vec<Run>,
    pub child: Child,
    /// What readers had to do because of the runs, in bytes; it enters the weight when something is flushed.
    pub read_work: AtomicU64,
}

#[derive(Clone)]
pub struct Run {
    pub table: Arc<Table>,
    /// Of the table's uncompressed bytes, about those inside the slot.
    pub bytes: u64,
}

#[derive(Clone)]
pub enum Child {
    Empty,
    Leaf(Arc<Table>),
    Inner(Arc<Inner>),
}
