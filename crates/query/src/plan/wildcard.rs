//! Wildcard indexes as the planner sees them: for each path that the filter is about, an index on the path's name and its
//! value.
//!
//! W1: only predicates that need the field, and whose values are no documents or arrays, since those have no keys.
//! W2: nothing is settled, since a name with a dot in it makes keys that look like those of another path.
//! W3: a number in a path may be a position in an array, which keys do not tell.

use arbor_bson::{DocBuf, Value};
use arbor_store::{Collection, FieldKind, Index, Wildcard};

use super::index_bounds::IndexBounds;
use super::index_shape::{IndexPart, IndexShape, IndexSource};
use super::interval::{Endpoint, Interval, Intervals};
use super::predicate::Predicate;

/// The component with the path, as MongoDB shows it.
const PATH: &str = "$_path";

/// Every way to answer something of the filter with a wildcard index. The bounds of all narrow.
pub fn candidates(collection: &Collection, predicates: &[Predicate]) -> Vec<(IndexShape, IndexBounds)> {
    let mut found = Vec::new();
    for (at, index) in collection.indexes.iter().enumerate().filter(|(_, index)| !index.hidden) {
        let Some(wildcard) = index.generator.wildcard() else { continue };
        let mut paths: Vec<&str> = predicates.iter().map(|predicate| predicate.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths.into_iter().filter(|path| !has_number(path)) {
            let own: Vec<Predicate> = predicates.iter().filter(|own| own.path == path).cloned().collect();
            let bounded = bounded(at, index, wildcard, path, &own);
            found.extend(bounded.or_else(|| existence(at, index, wildcard, path, &own)));
        }
    }
    found
}

fn bounded(
    at: usize,
    index: &Index,
    wildcard: &Wildcard,
    path: &str,
    own: &[Predicate],
) -> Option<(IndexShape, IndexBounds)> {
    let usable = |own: &&Predicate| {
        let bounds = &own.bounds;
        bounds.needs_field && !bounds.single_key_only && bounds.intervals.intersect(&without_keys()).is_empty()
    };
    let own: Vec<Predicate> = own.iter().filter(usable).cloned().collect();
    if own.is_empty() || !wildcard.covers(path) {
        return None;
    }
    let arrays = if index.is_multikey() { u64::MAX } else { 0 };
    let shape = shape(at, index, wildcard, path, arrays);
    let mut bounds = IndexBounds::of(&shape, &own);
    bounds.settled.clear();
    *bounds.intervals.first_mut()? = Intervals::point(Value::String(path.to_owned()));
    Some((shape, bounds))
}

/// `{ $exists: true }`: a key of the path or of one below it. A document may have several.
fn existence(
    at: usize,
    index: &Index,
    wildcard: &Wildcard,
    path: &str,
    own: &[Predicate],
) -> Option<(IndexShape, IndexBounds)> {
    let exists = |own: &Predicate| own.bounds.intervals.is_full() && own.element.is_none() && own.proves_field();
    let needed = own.iter().any(exists);
    if !needed || !wildcard.covers_all_below(path) {
        return None;
    }
    let text = |end: &str| Value::String(format!("{path}{end}"));
    // '/' is the character behind '.'
    let below = Interval::new(Endpoint::included(text(".")), Endpoint::excluded(text("/")));
    let paths = Intervals::of(vec![Interval::point(text("")), below]);
    let bounds = IndexBounds { intervals: vec![paths, Intervals::full()], settled: Vec::new(), complete: true };
    Some((shape(at, index, wildcard, path, u64::MAX), bounds))
}

fn shape(at: usize, index: &Index, wildcard: &Wildcard, path: &str, arrays: u64) -> IndexShape {
    let [of_path, of_value] = wildcard.descending();
    let part = |path: &str, descending, arrays| IndexPart {
        path: path.to_owned(),
        kind: FieldKind::Plain,
        descending,
        arrays,
    };
    IndexShape {
        name: index.name.clone(),
        parts: vec![part(PATH, of_path, 0), part(path, of_value, arrays)],
        unique: false,
        sparse: true,
        partial: index.partial.clone(),
        clustering: index.clustering,
        source: IndexSource::Secondary(at),
    }
}

/// Documents and arrays.
fn without_keys() -> Intervals {
    let after = Value::Binary { subtype: 0, bytes: Vec::new() };
    let low = Endpoint::included(Value::Document(DocBuf::new()));
    Intervals::of(vec![Interval::new(low, Endpoint::excluded(after))])
}

fn has_number(path: &str) -> bool {
    path.split('.').any(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}
