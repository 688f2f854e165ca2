//! The view of a reader: the state at a snapshot, with the reader's own writes when it is a transaction.

use std::borrow::Cow;

use arbor_base::{Position, TreeId};
use arbor_engine::{Cursor, RangeEstimate};

use crate::{CounterId, Result};

/// Belongs to one thread at a time. A tree that does not exist here is [`Error::UnknownTree`](crate::Error::UnknownTree).
pub trait View {
    /// Position of the last commit that the snapshot shows.
    fn position(&self) -> Position;

    fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>>;

    /// Returns a cursor without a position; it gets one when it is moved.
    fn cursor(&self, tree: TreeId) -> Result<Box<dyn Cursor + '_>>;

    /// Rough number of keys and bytes in `from <= key < to`; own writes are not counted.
    fn estimate(&self, tree: TreeId, from: &[u8], to: Option<&[u8]>) -> Result<RangeEstimate>;

    /// Exact value of a counter at this snapshot; 0 when it was never added to.
    fn counter(&self, id: CounterId) -> Result<i64>;
}
