//! Planning: from a filter, a sort and the indexes of a collection to the way the documents are found.
//!
//! | file | holds |
//! |---|---|
//! | `predicate.rs`, `value_bounds.rs` | what a filter says about single paths, as intervals of values |
//! | `interval.rs`, `key_bounds.rs` | intervals of values; the same as spans of key bytes |
//! | `index_shape.rs`, `index_bounds.rs` | an index as planned with; its bounds for a filter |
//! | `sort_order.rs` | whether a scan gives the order that is asked for |

mod access;
mod index_bounds;
mod index_shape;
mod interval;
mod key_bounds;
mod predicate;
mod sort_order;
mod value_bounds;

pub use access::{IndexAccess, ScanRange};
pub use index_bounds::IndexBounds;
pub use index_shape::{IndexPart, IndexShape, IndexSource};
pub use interval::{Endpoint, Interval, Intervals};
pub use key_bounds::{KeyBounds, Span, Verdict};
pub use predicate::{Predicate, conjuncts, predicates};
pub use sort_order::Direction;
