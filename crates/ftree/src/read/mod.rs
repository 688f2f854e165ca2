//! Reading a tree as of one sequence number.
//!
//! - [`get`](get::get): one key
//! - [`TreeCursor`]: movement in both directions, page by page ([`page`]); the entries above a block are its [`overlay`]
//! - [`ripen`]: blocks in the cache that hold what runs would add
//! - [`estimate`](estimate::estimate): how many keys a range has
//! - [`ForestSnapshot`]: the engine trait's snapshot
//!
//! Every operation loads the tree's current version, and so does every page of a cursor: what a registered snapshot needs is in
//! every later version (stripes). Nothing of a version is held on to between two calls but one block, and its leaf where
//! that has blobs.
//!
//! **Rules**
//! - R1: an entry of a memtable or a run counts over a block only if its number is greater than the block's `as_of`. A block
//!   that was never ripened has the `as_of` of its leaf.
//! - R2: a version is complete without the ripened block of another version: when all filters on the path deny a key,
//!   there is no such key, whatever a ripened block holds.
//! - R3: (a leaf has neither updates nor range tombstones: fold rule F5) what a leaf says of a key is the newest of its
//!   entries that the reader sees.
//! - R4: the reader's number is registered before the first version is loaded.
//!
//! Threads: readers write no memory that others read, but for the count of uses of a cold block and the sampled read work of
//! slots.

pub mod cursor;
pub mod estimate;
pub mod get;
pub mod overlay;
pub mod page;
pub mod path;
pub mod prefetch;
pub mod read_ahead;
pub mod ripen;
pub mod snapshot;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arbor_engine::UpdateFunction;

use crate::Seq;
use crate::io::Io;
use crate::snapshots::Snapshots;

pub use cursor::TreeCursor;
pub use estimate::estimate;
pub use get::{Got, get};
pub use prefetch::prefetch;
pub use snapshot::{ForestSnapshot, Handles};

/// A reader: a registered sequence number and what reading needs.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    pub io: &'a Arc<Io>,
    pub updates: Option<&'a dyn UpdateFunction>,
    pub at: Seq,
    /// For ripening: which versions others need.
    pub snapshots: &'a Snapshots,
    pub visible: &'a AtomicU64,
}
