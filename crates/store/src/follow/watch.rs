//! Who watches a long change.

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows go into the trees of another engine.
    Copying,
    /// An index build reads the documents.
    Scanning,
    /// An index build fills the trees with sorted keys.
    Loading,
    /// Progress in records of the log.
    CatchingUp,
}

pub trait Watch {
    /// Whether it is to be broken off.
    fn is_stopped(&self) -> bool;

    /// Whether what is broken off begins again at the next start: the server is going down.
    fn is_closing(&self) -> bool {
        false
    }

    fn progress(&self, phase: Phase, done: u64, total: u64);
}

/// Nobody.
pub struct Unwatched;

impl Watch for Unwatched {
    fn is_stopped(&self) -> bool {
        false
    }

    fn progress(&self, _: Phase, _: u64, _: u64) {}
}
