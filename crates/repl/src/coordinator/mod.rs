//! Storage of the agreement, behind compare-and-set.
//!
//! | file | what |
//! |---|---|
//! | `local_file` | a file: the coordinator of a set of one member |
//! | `shared_file` | a file of several processes on one machine, for tests |
//! | `simulated` | in memory, for tests: replies and requests are lost, or executed late |
//! | `contract` | the suite that every implementation passes |
//!
//! A coordinator holds one value. Safety comes from compare-and-set alone; hints may be late or wrong.

pub mod contract;
mod local_file;
mod shared_file;
mod simulated;

use std::io;

pub use local_file::LocalFile;
pub(crate) use local_file::replace_file;
pub use shared_file::SharedFile;
pub use simulated::{Faults, Simulated};

use crate::agreement::{Agreement, Version};

pub trait Coordinator: Send + Sync {
    /// Returns the newest agreement, linearizably: every replacement that was `Done` before the call is visible.
    /// `None`: there is none yet.
    ///
    /// Errors: the coordinator cannot be reached, or its value is damaged.
    fn read(&self) -> io::Result<Option<(Version, Agreement)>>;

    /// Replaces the agreement if its version is `expected` (`None`: if there is none).
    ///
    /// Errors: it was not replaced, and never will be by this call.
    fn replace(&self, expected: Option<Version>, next: &Agreement) -> io::Result<Replaced>;

    /// Returns true if there may be a version after `seen`. A hint: it may be late, and it may be wrong.
    fn changed(&self, seen: Option<Version>) -> bool;
}

/// Outcome of [`Coordinator::replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replaced {
    /// It is durable, under this version.
    Done(Version),
    /// The version was not the expected one; nothing was changed.
    Stale,
    /// No reply came: it was done, or was not, or will be. Only a version other than the expected one rules out that
    /// it happens later, so a caller that reads the expected version again still does not know.
    Unknown,
}
