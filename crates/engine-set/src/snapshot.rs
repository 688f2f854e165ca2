//! Snapshots of all members at one position.

use std::borrow::Cow;
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, Error, RangeEstimate, Result, Snapshot};

use crate::routes::Routes;

pub(crate) struct SetSnapshot {
    pub position: Position,
    pub routes: Arc<Routes>,
    /// By the index of the member.
    pub members: Vec<MemberView>,
}

/// A snapshot's view of one member.
pub(crate) enum MemberView {
    Open(Arc<dyn Snapshot>),
    /// The member gave no snapshot (a failed device, no reader left): its trees cannot be read in this one.
    Missing {
        engine: &'static str,
        reason: String,
    },
    /// The member's cache was full of what others read and write. A later snapshot may have its trees.
    Full {
        context: String,
    },
}

impl MemberView {
    pub(crate) fn missing(engine: &'static str, error: &Error) -> MemberView {
        match error {
            Error::CacheFull { context } => MemberView::Full { context: context.clone() },
            _ => MemberView::Missing { engine, reason: error.to_string() },
        }
    }

    pub(crate) fn position(&self) -> Option<Position> {
        match self {
            MemberView::Open(snapshot) => Some(snapshot.position()),
            MemberView::Missing { .. } | MemberView::Full { .. } => None,
        }
    }

    fn of(&self, tree: TreeId) -> Result<&dyn Snapshot> {
        match self {
            MemberView::Open(snapshot) => Ok(&**snapshot),
            MemberView::Missing { engine, reason } => {
                Err(Error::Unavailable { engine: (*engine).to_owned(), reason: reason.clone(), tree: Some(tree) })
            }
            MemberView::Full { context } => Err(Error::CacheFull { context: context.clone() }),
        }
    }
}

impl SetSnapshot {
    fn of(&self, tree: TreeId) -> Result<&dyn Snapshot> {
        let member = self.members.get(self.routes.readable(tree)?);
        member.expect("an index leads to a member").of(tree)
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
