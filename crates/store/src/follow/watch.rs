//! Watching a long change: its progress, and whether it has to stop.

/// The phase of a long change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows go into the trees of another engine.
    Copying,
    /// An index build reads the documents.
    Scanning,
    /// An index build fills the trees with sorted keys.
    Loading,
    /// The filled trees are fetched by the other members of the set.
    AwaitingMembers,
    /// Progress in records of the log.
    CatchingUp,
}

/// The observer of a long change, which may abort it.
pub trait Watch {
    /// Returns true if the operation should abort.
    fn is_stopped(&self) -> bool;

    /// Returns true if the aborted operation begins again at the next start: the server is going down.
    fn is_closing(&self) -> bool {
        false
    }

    fn progress(&self, phase: Phase, done: u64, total: u64);
}

/// A [`Watch`] that never aborts and ignores progress.
pub struct Unwatched;

impl Watch for Unwatched {
    fn is_stopped(&self) -> bool {
        false
    }

    fn progress(&self, _: Phase, _: u64, _: u64) {}
}
