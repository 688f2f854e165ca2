//! Reading: a snapshot is the state after one applied batch.

use std::borrow::Cow;

use arbor_base::{Position, TreeId};

use crate::Result;

/// The state of all trees at a batch boundary. Stays readable, unchanged, until it is dropped. Threads may share it.
pub trait Snapshot: Send + Sync {
    /// Position of the last batch that this snapshot shows.
    fn position(&self) -> Position;

    /// A tree that does not exist in this snapshot is [`Error::UnknownTree`](crate::Error::UnknownTree).
    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>>;

    /// Returns a cursor that is unpositioned until it is moved.
    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>>;

    /// Rough number of keys and bytes in `from <= key < to` (`to == None`: to the end), in a few reads.
    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate>;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeEstimate {
    pub keys: u64,
    pub bytes: u64,
}

/// Ordered movement over one tree. Every move returns true if the cursor is on an entry afterwards; `key` and
/// `value` may be called only then, and are valid until the next move. A cursor that ran off an end, or was never
/// placed, is unpositioned: `next` and `prev` return `false` until one of the other moves places it.
pub trait Cursor: Send {
    /// To the first entry with `key >= target`.
    fn seek(&mut self, target: &[u8]) -> Result<bool>;
    /// To the last entry with `key < target`.
    fn seek_before(&mut self, target: &[u8]) -> Result<bool>;
    fn first(&mut self) -> Result<bool>;
    fn last(&mut self) -> Result<bool>;
    fn next(&mut self) -> Result<bool>;
    fn prev(&mut self) -> Result<bool>;
    fn key(&self) -> &[u8];
    fn value(&self) -> &[u8];
    /// Hints how many rows are likely read from the next placement on, and before which key, or behind which one when the movement is
    /// backward, reading ends (empty: no such key). An engine that has to wait for the disk may read them with fewer requests; rows and
    /// their order are the same with any hint.
    fn expect_rows(&mut self, _rows: u64, _end: &[u8]) {}
}
