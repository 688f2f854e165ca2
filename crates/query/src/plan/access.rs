//! The ways to the documents of a collection.

use super::index_shape::IndexShape;
use super::interval::Intervals;
use super::key_bounds::{KeyBounds, Span};
use super::sort_order::Direction;

/// A scan of one index.
#[derive(Clone, Debug)]
pub struct IndexAccess {
    pub shape: IndexShape,
    pub range: ScanRange,
    /// Bounds of each component, as explain shows them.
    pub intervals: Vec<Intervals>,
    pub direction: Direction,
}

#[derive(Clone, Debug)]
pub enum ScanRange {
    Components(KeyBounds),
    /// `min` and `max` of the client.
    Keys(Span),
}
