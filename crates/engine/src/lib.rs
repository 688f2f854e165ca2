//! The seam between the commit path and the storage trees.
//!
//! An engine keeps many ordered trees of byte keys and byte values. It has no write-ahead log: `txn` hands it batches in
//! log order, and the engine promises that **after a crash it reopens in the state of some prefix of the applied batches
//! and says which** ([`Engine::applied`]). Recovery replays the log from there.

pub mod adapter;
mod batch;
mod check;
mod directory_marker;
mod error;
pub mod limits;
mod member;
pub mod model;
mod options;
mod snapshot;
mod traits;

pub use batch::{Batch, Op};
pub use check::{CheckedTrees, check_batches, check_row};
pub use directory_marker::{DirectoryMarker, FoundDirectory, create_directory};
pub use error::{Error, Result};
pub use member::{Member, MemberState};
pub use options::{ENGINE_SETTING, TreeOptions};
pub use snapshot::{Cursor, RangeEstimate, Snapshot};
pub use traits::{Barrier, Capabilities, Engine, EngineStats, TreeStats, UpdateFunction};
