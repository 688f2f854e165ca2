//! The state of the one writer.

use std::collections::HashMap;

use arbor_base::TreeId;

use crate::published;
use crate::raw::{Session, Table};
use crate::records::{State, Tree};

/// The writer's view of the newest state.
pub(crate) struct WriterState {
    /// The writer's own.
    pub session: Session,
    /// For making and dropping tables, which WiredTiger does outside of transactions.
    pub tables_session: Session,
    pub trees: HashMap<TreeId, Tree>,
    /// Changes only with the shape; snapshots share it.
    pub tables: published::Tables,
    pub state: State,
    pub next_table: u64,
    /// Tables to drop.
    pub pending_drops: Vec<PendingDrop>,
    pub poisoned: Option<String>,
}

#[derive(Clone, Copy)]
pub(crate) struct PendingDrop {
    pub table: Table,
    /// The first generation and shape that do not show it.
    pub generation: u64,
    pub shape: u64,
}
