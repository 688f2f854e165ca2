//! Planning: from a filter, a sort and the indexes of a collection to a plan.
//!
//! | file | holds |
//! |---|---|
//! | `predicate.rs`, `value_bounds.rs` | what a filter says about single paths, as intervals of values |
//! | `interval.rs`, `key_bounds.rs` | intervals of values; the same as spans of key bytes |
//! | `index_shape.rs`, `index_bounds.rs` | an index as planned with; its bounds for a filter |
//! | `implication.rs` | whether a query implies the filter of a partial index |
//! | `sort_order.rs`, `sort_merge.rs` | whether a scan, or several merged ones, give the requested order |
//! | `query.rs`, `choose.rs`, `access.rs` | a parsed query; the choice among indexes; the candidate plans |
//! | `text.rs` | searches in the text index |
//! | `wildcard.rs` | wildcard indexes as indexes of single paths |
//! | `texts.rs` | strings under the collation of an index |
//! | `cost.rs`, `decide.rs`, `trial.rs` | the cost of a plan; the decision among candidates, by trial where costs are near |
//! | `shape.rs`, `cache.rs` | queries without their constants; the plans that won, by shape |
//! | `index_filters.rs` | which indexes a query may use |
//! | `geo.rs`, `near.rs` | places as bounds; documents by distance |
//! | `distinct.rs` | `distinct` from an index alone |
//! | `usage.rs`, `summary.rs` | noting which indexes are used; the plans of a statement in a line |
//! | `build.rs` | from the chosen plan to operators |

mod access;
mod build;
mod cache;
mod choose;
mod cost;
mod decide;
mod distinct;
mod geo;
mod hinted_range;
mod implication;
mod index_bounds;
mod index_filters;
mod index_shape;
mod interval;
mod key_bounds;
mod near;
mod predicate;
mod query;
mod shape;
mod sort_merge;
mod sort_order;
pub mod summary;
mod text;
mod texts;
mod trial;
mod usage;
mod value_bounds;
mod wildcard;

pub(crate) use access::{Access, IndexAccess, ScanRange, Solution};
pub(crate) use build::{Slots, decided, index_scan, operator, skip_and_limit};
pub use cache::PlanCache;
pub(crate) use choose::{by_index, plan};
pub(crate) use decide::{Decider, Decision, hashes, trial_docs};
pub(crate) use distinct::distinct_access;
pub use index_filters::{AllowedIndexes, DocOrName, FilteredQuery, IndexFilters};
pub(crate) use index_shape::{IndexPart, IndexShape, IndexSource};
pub(crate) use key_bounds::{KeyBounds, Span, Verdict};
pub(crate) use near::NearAccess;
pub(crate) use predicate::conjuncts;
pub(crate) use query::{ChosenIndex, Query, ShownAs, score_required};
pub use shape::ShapeHash;
pub(crate) use sort_order::Direction;
pub(crate) use text::TextAccess;
pub(crate) use usage::{note_count, note_distinct, note_use};
pub(crate) use wildcard::PATH as WILDCARD_PATH;

/// Returns the spans of keys that documents which match can have, `max` at most.
pub(crate) fn key_spans(shape: &IndexShape, filter: &arbor_lang::Filter, max: usize) -> Vec<Span> {
    let texts = texts::Texts::of(&shape.collation, filter.collation());
    let bounds = index_bounds::IndexBounds::of(shape, &predicate::predicates(filter.root(), texts));
    let keys = bounds.keys(shape);
    if keys.is_empty() { Vec::new() } else { keys.hulls(max) }
}
