//! Accumulators that gather values, over a window that moves forward.
//!
//! Their state is as large as the window, so partial states of parts of it, as `window::sliding` keeps them for the
//! others, would take quadratic space. These keep each row once and drop the oldest.
//!
//! | file | for | a row costs | a value costs |
//! |---|---|---|---|
//! | `arrived.rs` | `$push`, `$firstN`, `$lastN` | O(1) | its own size |
//! | `distinct.rs` | `$addToSet` | O(log w) | its own size |
//! | `ordered.rs` | `$minN`, `$maxN`, `$top`, `$topN`, `$bottom`, `$bottomN` | O(log w) | its own size |
//! | `ranked.rs` | `$median`, `$percentile` | O(sqrt w) | O(sqrt w) |
//! | `merged.rs` | `$mergeObjects` | O(fields) | its own size |
//!
//! w: rows of the window.

mod arrived;
mod distinct;
mod merged;
mod ordered;
mod ranked;
#[cfg(test)]
mod tests;

use arbor_bson::{Doc, Value};

use crate::Result;
use crate::expression::Evaluated;

pub(super) use arrived::{Arrived, Part};
pub(super) use distinct::Distinct;
pub(super) use merged::Merged;
pub(super) use ordered::{End, Order, Ordered};
pub(super) use ranked::Ranked;

/// The rows of a window, first in, first out.
pub trait Moving: std::fmt::Debug + Send {
    /// Adds a row after the others.
    fn enter(&mut self, value: Evaluated, root: Doc) -> Result<()>;

    /// Lets the oldest row go.
    fn leave(&mut self);

    fn value(&self) -> Value;

    /// Memory held, estimated.
    fn size_bytes(&self) -> usize;
}
