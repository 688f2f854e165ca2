//! Waiting for the moment at which a commit counts (see `commit_rule.rs`).

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use arbor_base::Position;

use crate::commit::CommitPath;
use crate::commit_rule::Term;
use crate::{Error, Result};

/// A commit that the log has. Dropping it takes nothing back.
#[must_use]
pub struct Pending {
    path: Arc<CommitPath>,
    /// `None`: it counts already.
    term: Option<Arc<Term>>,
    position: Position,
}

impl Pending {
    pub(crate) fn new(path: Arc<CommitPath>, term: Option<Arc<Term>>, position: Position) -> Pending {
        Pending { path, term, position }
    }

    pub fn position(&self) -> Position {
        self.position
    }

    /// The outcome, if it is known by now.
    pub fn outcome(&self) -> Option<Result<Position>> {
        match &self.term {
            None => Some(Ok(self.position)),
            Some(term) => self.path.outcome(term, self.position),
        }
    }

    /// Waits until the commit is visible, or until the deadline.
    ///
    /// Errors: [`Error::Unsettled`] at the deadline, and when this member stops leading before.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<Position> {
        match &self.term {
            None => Ok(self.position),
            Some(term) => self.path.wait_committed(term, self.position, deadline),
        }
    }
}

thread_local! {
    static PATIENCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Bounds the waits of this thread's commits for the set, as long as it lives: at the deadline a commit that is in the log, and whose outcome
/// is still open, returns as if it were done. The caller says so to its client (`wtimeout`), by [`Transactions::is_durable_by`].
///
/// [`Transactions::is_durable_by`]: crate::Transactions::is_durable_by
#[must_use]
pub struct Patience {
    before: Option<Instant>,
}

impl Patience {
    /// `None`: for what must be visible when the commit returns.
    pub fn until(deadline: Option<Instant>) -> Patience {
        Patience { before: PATIENCE.replace(deadline) }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        PATIENCE.set(self.before);
    }
}

impl Pending {
    /// Waits until the commit is visible, or until the deadline of this thread's [`Patience`].
    pub(crate) fn wait_patiently(&self) -> Result<Position> {
        match &self.term {
            None => Ok(self.position),
            Some(term) => self.path.wait_patiently(term, self.position),
        }
    }
}

impl CommitPath {
    pub(crate) fn wait_patiently(&self, term: &Term, position: Position) -> Result<Position> {
        let deadline = PATIENCE.get();
        let waited = self.wait_committed(term, position, deadline);
        match deadline {
            Some(_) if self.outcome(term, position).is_none() => Ok(position),
            _ => waited,
        }
    }

    fn outcome(&self, term: &Term, position: Position) -> Option<Result<Position>> {
        // Published before the end is read: no later term has published by then, unless this one has ended.
        let published = self.published();
        let unsettled = || Some(Err(Error::Unsettled { position }));
        match term.end() {
            Some(end) if position > end => unsettled(),
            Some(_) => Some(Ok(position)),
            None if published >= position => Some(Ok(position)),
            None if self.is_ended() || self.is_without_waits() => unsettled(),
            None => None,
        }
    }

    pub(crate) fn wait_committed(
        &self,
        term: &Term,
        position: Position,
        deadline: Option<Instant>,
    ) -> Result<Position> {
        let reached = self.position_reached(position);
        reached.wait_unless(deadline, || self.outcome(term, position).is_some());
        self.outcome(term, position).unwrap_or(Err(Error::Unsettled { position }))
    }
}
