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
//! | `geo.rs`, `near.rs` | places as bounds; documents by distance |
//! | `distinct.rs` | `distinct` from an index alone |
//! | `usage.rs` | noting which indexes are used |
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
mod index_shape;
mod interval;
mod key_bounds;
mod near;
mod predicate;
mod query;
mod shape;
mod sort_merge;
mod sort_order;
mod text;
mod texts;
mod trial;
mod usage;
mod value_bounds;
mod wildcard;

pub use access::{Access, IndexAccess, ScanRange, Solution};
pub use build::{Slots, decided, index_scan, operator, skip_and_limit};
pub use cache::PlanCache;
pub use choose::{by_index, plan};
pub use decide::{Decider, Decision, hashes, trial_docs};
pub use distinct::distinct_access;
pub use index_shape::{IndexShape, IndexSource};
pub use key_bounds::{KeyBounds, Span, Verdict};
pub use near::NearAccess;
pub use predicate::conjuncts;
pub use query::{ChosenIndex, Query, ShownAs, score_required};
pub use shape::ShapeHash;
pub use sort_order::Direction;
pub use text::TextAccess;
pub use usage::{note_scan, note_use};
pub use wildcard::PATH as WILDCARD_PATH;
