//! The moment at which a commit counts, and waiting for it.
//!
//! A commit has two stages. Stage 1 checks, stamps and appends it to the log; stage 2 applies what is committed to the engine, publishes it
//! and wakes its waiters. Under [`CommitRule::Own`] the log of this member is all there is: stage 2 follows stage 1 in place.
//! Under [`CommitRule::Set`] a commit counts once the commit point has passed it, which
//! [`Transactions::set_commit_point`](crate::Transactions::set_commit_point) reports, and is *in flight* until then. So nothing is applied
//! that a set may take back.
//!
//! - S1: the engine never has a batch behind the commit point, nor behind what is durable in its own log.
//! - S2: a commit that was acknowledged was applied while its term lasted, or ended up before the term's end.

use std::sync::OnceLock;

use arbor_base::Position;

/// The moment at which a commit in the log counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitRule {
    /// At once: a standalone server, and a set of one.
    #[default]
    Own,
    /// Once the set has it: the commit point says so.
    Set,
}

/// The time for which a member leads. Positions of the log name its commits only as long as it lasts.
#[derive(Debug, Default)]
pub(crate) struct Term {
    /// The last position that was applied when it ended.
    end: OnceLock<Position>,
}

impl Term {
    pub(crate) fn end_at(&self, applied: Position) {
        let _ended_before = self.end.set(applied);
    }

    pub(crate) fn end(&self) -> Option<Position> {
        self.end.get().copied()
    }
}
