//! Snapshots of all members at one position.

use std::borrow::Cow;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, RangeEstimate, Result, Snapshot};

use crate::routes::Routes;

pub(crate) struct SetSnapshot {
    pub position: Position,
    pub routes: Arc<Routes>,
    /// By the index of the member.
    pub members: Vec<Arc<dyn Snapshot>>,
}

impl SetSnapshot {
    fn of(&self, tree: TreeId) -> Result<&dyn Snapshot> {
        Ok(&*self.members[self.routes.readable(tree)?])
    }
}

impl Snapshot for SetSnapshot {
    fn position(&self) -> Position {
        self.position
    }

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.of(tree)?.get(tree, key)
    }

    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>> {
        self.of(tree)?.cursor(tree)
    }

    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate> {
        self.of(tree)?.estimate(tree, from, to)
    }
}
