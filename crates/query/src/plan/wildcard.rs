//! Wildcard indexes as the planner sees them: for each path that the filter is about, an index on the path's name and its
//! value.
//!
//! W1: only predicates that need the field, and whose values are no documents or arrays, since those have no keys.
//! W2: nothing is settled, since a name with a dot in it makes keys that look like those of another path.
//! W3: a number in a path may be a position in an array, which keys do not record.
//! W4: in a compound index every document has a key, and what bounds the other fields bounds the scan as in any index.

use arbor_bson::{DocBuf, Value};
use arbor_store::{Collection, Direction, FieldKind, Index, KeyField, Wildcard};

use super::index_bounds::IndexBounds;
use super::index_shape::{IndexPart, IndexShape, IndexSource};
use super::interval::{Endpoint, Interval, Intervals};
use super::predicate::{Predicate, Readings};

/// The component with the path, as MongoDB shows it.
pub(crate) const PATH: &str = "$_path";
/// The component with the value, of any path.
const VALUE: &str = "$_value";

/// Returns every use of a wildcard index for a part of the filter. The bounds of all narrow.
pub(super) fn candidates(collection: &Collection, readings: &Readings) -> Vec<(IndexShape, IndexBounds)> {
    let mut found = Vec::new();
    for (at, index) in collection.indexes.iter().enumerate().filter(|(_, index)| !index.hidden) {
        let Some(wildcard) = index.generator.wildcard() else { continue };
        let predicates = &*readings.of(&index.collation);
        let mut paths: Vec<&str> = predicates.iter().map(|predicate| predicate.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths.into_iter().filter(|path| !has_number(path)) {
            let own: Vec<Predicate> = predicates.iter().filter(|own| own.path == path).cloned().collect();
            let bounded = bounded(at, index, wildcard, path, &own, predicates);
            found.extend(bounded.or_else(|| existence(at, index, wildcard, path, &own, predicates)));
        }
        found.extend(by_first_fields(at, index, wildcard, predicates));
    }
    found
}

fn bounded(
    at: usize,
    index: &Index,
    wildcard: &Wildcard,
    path: &str,
    own: &[Predicate],
    others: &[Predicate],
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
    let others = others.iter().filter(|other| is_other(wildcard, other));
    let all: Vec<Predicate> = own.into_iter().chain(others.cloned()).collect();
    let mut bounds = IndexBounds::of(&shape, &all);
    bounds.settled.clear();
    *bounds.intervals.get_mut(wildcard.others().0.len())? = Intervals::point(Value::String(path.to_owned()));
    // W4: what has a key for this path is whole, whatever the other fields are
    bounds.complete = true;
    Some((shape, bounds))
}

/// Without a condition on a path: the fields before the wildcard find all documents, each perhaps several times.
fn by_first_fields(
    at: usize,
    index: &Index,
    wildcard: &Wildcard,
    all: &[Predicate],
) -> Option<(IndexShape, IndexBounds)> {
    let (before, _) = wildcard.others();
    if !all.iter().any(|predicate| before.first().is_some_and(|field| field.path == predicate.path)) {
        return None;
    }
    let shape = shape(at, index, wildcard, VALUE, u64::MAX);
    let others: Vec<Predicate> = all.iter().filter(|own| is_other(wildcard, own)).cloned().collect();
    let mut bounds = IndexBounds::of(&shape, &others);
    bounds.settled.clear();
    bounds.complete = true;
    Some((shape, bounds))
}

/// Returns true if it is about a field other than the wildcard.
fn is_other(wildcard: &Wildcard, predicate: &Predicate) -> bool {
    let (before, behind) = wildcard.others();
    before.iter().chain(behind).any(|field| field.path == predicate.path)
}

/// `{ $exists: true }`: a key of the path or of one below it. A document may have several.
fn existence(
    at: usize,
    index: &Index,
    wildcard: &Wildcard,
    path: &str,
    own: &[Predicate],
    others: &[Predicate],
) -> Option<(IndexShape, IndexBounds)> {
    let exists = |own: &Predicate| own.bounds.intervals.is_full() && own.element.is_none() && own.proves_field();
    let needed = own.iter().any(exists);
    if !needed || !wildcard.covers_all_below(path) {
        return None;
    }
    let text = |end: &str| Value::String(format!("{path}{end}"));
    // '/' is the character after '.'
    let below = Interval::new(Endpoint::included(text(".")), Endpoint::excluded(text("/")));
    let paths = Intervals::of(vec![Interval::point(text("")), below]);
    let shape = shape(at, index, wildcard, path, u64::MAX);
    let others: Vec<Predicate> = others.iter().filter(|other| is_other(wildcard, other)).cloned().collect();
    let mut bounds = IndexBounds::of(&shape, &others);
    (bounds.settled, bounds.complete) = (Vec::new(), true);
    *bounds.intervals.get_mut(wildcard.others().0.len())? = paths;
    Some((shape, bounds))
}

fn shape(at: usize, index: &Index, wildcard: &Wildcard, path: &str, arrays: u64) -> IndexShape {
    let part = |path: &str, descending, arrays| IndexPart {
        path: path.to_owned(),
        kind: FieldKind::Plain,
        descending,
        arrays,
    };
    let (before, behind) = wildcard.others();
    let other = |(field, key): (usize, &KeyField)| {
        part(&key.path, key.direction == Direction::Descending, index.multikey_components(field))
    };
    let mut parts: Vec<IndexPart> = before.iter().enumerate().map(other).collect();
    parts.extend([part(PATH, false, 0), part(path, wildcard.is_descending(), arrays)]);
    parts.extend(behind.iter().enumerate().map(|(at, key)| (before.len() + 1 + at, key)).map(other));
    IndexShape {
        name: index.name.clone(),
        parts,
        unique: false,
        sparse: true,
        collation: index.collation.clone(),
        partial: index.partial.clone(),
        clustering: index.clustering,
        geo: None,
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
