//! `distinct` from an index alone.

use arbor_store::Collection;

use super::access::{IndexAccess, ScanRange};
use super::index_bounds::IndexBounds;
use super::index_shape::{IndexShape, IndexSource};
use super::predicate::{Readings, conjuncts};
use super::query::Query;
use super::sort_order::Direction;

/// A scan whose entries have exactly the values that the matching documents have at `key`, in the first component.
/// Null values require reading the document, which may lack the field.
pub(crate) fn distinct_access(collection: &Collection, key: &str, query: &Query) -> Option<IndexAccess> {
    if query.hint.is_some() {
        return None;
    }
    let readings = Readings::new(&query.filter);
    let settled = conjuncts(query.filter.root()).len();
    let allowed = query.allowed.as_ref().map(|allowed| allowed.names(collection));
    let usable = |shape: &IndexShape| allowed.as_ref().is_none_or(|names| names.contains(&shape.name.as_str()));
    IndexShape::of(collection).into_iter().filter(usable).find_map(|shape| {
        // an index with a collation stores no values
        let first = shape.parts.first().filter(|_| shape.collation.is_simple())?;
        if shape.source == IndexSource::Records || first.path != key || !first.is_plain() || first.is_multikey() {
            return None;
        }
        let bounds = IndexBounds::of(&shape, &readings.of(&shape.collation));
        let alone = bounds.settled.len() == settled && bounds.intervals.iter().skip(1).all(|all| all.is_full());
        // what a sparse index of this field alone leaves out has no value here
        let complete = bounds.complete || shape.parts.len() == 1;
        let keys = bounds.keys(&shape);
        (alone && complete && shape.holds_all_of(&query.filter) && !keys.is_empty()).then_some(IndexAccess {
            range: ScanRange::Components(keys),
            intervals: bounds.intervals,
            direction: Direction::Forward,
            shape,
        })
    })
}
