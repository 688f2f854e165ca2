//! Bounds of one index for one filter.
//!
//! H1: a hashed component is bounded by single values only, and settles nothing.
//! M1: on a component with arrays two predicates may be true through two different keys, so only one of them bounds the
//! scan, unless one `$elemMatch` holds both and there is no array below its elements.
//! M2: of two components below one array only the first is bounded, unless the predicates of both are in one
//! `$elemMatch` at exactly the path that they share: two predicates may be true through two different elements.

use arbor_bson::Value;
use arbor_store::{FieldKind, hash_of};

use super::geo;
use super::index_shape::{IndexPart, IndexShape};
use super::interval::{Interval, Intervals};
use super::key_bounds::KeyBounds;
use super::predicate::Predicate;
use super::value_bounds::Exact;

#[derive(Clone, Debug)]
pub(super) struct IndexBounds {
    pub intervals: Vec<Intervals>,
    /// Conjuncts of the filter that the bounds say completely.
    pub settled: Vec<usize>,
    /// No document that matches is missing in the index for want of the indexed fields.
    pub complete: bool,
}

impl IndexBounds {
    pub(super) fn of(shape: &IndexShape, predicates: &[Predicate]) -> IndexBounds {
        let mut bounds = IndexBounds { intervals: Vec::new(), settled: Vec::new(), complete: !shape.sparse };
        let mut used: Vec<Vec<&Predicate>> = Vec::new();
        for (at, part) in shape.parts.iter().enumerate() {
            if part.kind.is_geo() {
                bounds.place(shape, part, predicates);
                used.push(Vec::new());
                continue;
            }
            let own: Vec<&Predicate> = predicates
                .iter()
                .filter(|p| p.path == part.path && !(part.is_multikey() && p.bounds.single_key_only))
                .collect();
            bounds.complete |= shape.geo.is_none() && own.iter().any(|p| p.bounds.needs_field);
            let chosen = if part.is_multikey() { chosen_on_arrays(shape, at, &own, &used) } else { own };
            let all = chosen.iter().map(|p| &p.bounds.intervals);
            let intervals = all.fold(Intervals::full(), |sum, next| sum.intersect(next));
            let intervals = match part.kind {
                FieldKind::Plain | FieldKind::Sphere | FieldKind::Plane => {
                    bounds.settle(&chosen, part.is_multikey());
                    intervals
                }
                FieldKind::Hashed => hashed(&intervals),
                FieldKind::Text => Intervals::full(),
            };
            bounds.intervals.push(intervals);
            used.push(chosen);
        }
        bounds
    }

    /// P1: an index of places has the documents that have a place, so it is complete only for predicates on one. Of several
    /// tests the one with the fewest ranges bounds the scan: two may be true of two places.
    fn place(&mut self, shape: &IndexShape, part: &IndexPart, predicates: &[Predicate]) {
        let own = predicates.iter().filter(|p| p.path == part.path).filter_map(|p| p.geo.as_ref());
        let found = own.filter_map(|test| geo::intervals(shape, part.kind, test));
        let best = found.min_by_key(|intervals| intervals.as_slice().len());
        self.complete |= best.is_some();
        self.intervals.push(best.unwrap_or_else(Intervals::full));
    }

    fn settle(&mut self, chosen: &[&Predicate], multikey: bool) {
        let enough = if multikey { Exact::Always } else { Exact::SingleKey };
        let settled = chosen.iter().filter(|p| p.whole && p.bounds.exact >= enough);
        self.settled.extend(settled.map(|p| p.conjunct));
    }

    /// The first component is bounded, so that less than the whole index is read.
    pub(super) fn narrows(&self) -> bool {
        self.intervals.first().is_some_and(|first| !first.is_full())
    }

    /// Leading components that are one value.
    pub(super) fn points(&self) -> usize {
        self.intervals.iter().take_while(|intervals| intervals.is_point()).count()
    }

    pub(super) fn keys(&self, shape: &IndexShape) -> KeyBounds {
        KeyBounds::new(self.intervals.iter().zip(shape.parts.iter().map(|part| part.descending)))
    }
}

/// Hashes of single values; nothing can be said about ranges. Different values may have one hash, so nothing is settled.
fn hashed(intervals: &Intervals) -> Intervals {
    let all = intervals.as_slice();
    if !all.iter().all(Interval::is_point) {
        return Intervals::full();
    }
    let hash = |interval: &Interval| Interval::point(Value::Int64(hash_of(interval.low.value.as_ref())));
    Intervals::of(all.iter().map(hash).collect())
}

/// M1 and M2.
fn chosen_on_arrays<'p>(
    shape: &IndexShape,
    at: usize,
    own: &[&'p Predicate],
    used: &[Vec<&'p Predicate>],
) -> Vec<&'p Predicate> {
    let part = &shape.parts[at];
    let allowed = |candidate: &Predicate| {
        used.iter().zip(&shape.parts).all(|(chosen, other)| {
            let shared = shared_names(&part.path, &other.path);
            let independent = chosen.is_empty() || (part.arrays_after(shared) && other.arrays_after(shared));
            independent || chosen.iter().all(|p| same_element(p, candidate, shared))
        })
    };
    let Some(best) = own.iter().filter(|p| allowed(p)).min_by_key(|p| breadth(&p.bounds.intervals)) else {
        return Vec::new();
    };
    match &best.element {
        Some(element) if part.arrays_within(names(&element.path)) => {
            let together = |p: &&&Predicate| p.element.as_ref().is_some_and(|own| own.id == element.id);
            own.iter().filter(together).copied().collect()
        }
        _ => vec![best],
    }
}

fn same_element(a: &Predicate, b: &Predicate, shared: usize) -> bool {
    match (&a.element, &b.element) {
        (Some(a), Some(b)) => a.id == b.id && names(&a.path) == shared,
        _ => false,
    }
}

fn names(path: &str) -> usize {
    path.split('.').count()
}

/// 2 for `a.b.c` and `a.b.d`.
fn shared_names(a: &str, b: &str) -> usize {
    a.split('.').zip(b.split('.')).take_while(|(a, b)| a == b).count()
}

/// Smaller is narrower.
fn breadth(intervals: &Intervals) -> usize {
    const RANGE: usize = 1 << 20;
    let of = |interval: &Interval| match () {
        _ if interval.is_point() => 1,
        _ if interval.is_full() => 8 * RANGE,
        _ if !interval.low.inclusive && !interval.high.inclusive => RANGE,
        _ => 2 * RANGE,
    };
    intervals.as_slice().iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::index_shape::testing::shape;
    use crate::plan::predicate::Element;
    use crate::plan::value_bounds;
    use arbor_lang::matcher::Compare;

    fn predicate(path: &str, op: Compare, value: i32, element: Option<(usize, &str)>) -> Predicate {
        let simple = arbor_lang::Collation::simple();
        let texts = crate::plan::texts::Texts::of(&simple, &simple);
        Predicate {
            path: path.to_owned(),
            bounds: value_bounds::of_compare(op, &Value::Int32(value), texts).unwrap(),
            conjunct: 0,
            whole: element.is_none(),
            element: element.map(|(id, path)| Element { id, path: path.to_owned() }),
            geo: None,
        }
    }

    #[track_caller]
    fn check(index: &str, predicates: &[Predicate], expected: &[&[&str]]) {
        let bounds = IndexBounds::of(&shape(index), predicates);
        let texts: Vec<Vec<String>> =
            bounds.intervals.iter().map(|all| all.texts(false, &arbor_lang::Collation::simple())).collect();
        assert_eq!(texts, expected);
    }

    const ALL: &[&str] = &["[MinKey, MaxKey]"];

    #[test]
    fn ranges_of_one_path_intersect_only_without_arrays() {
        let range = [predicate("a", Compare::Gt, 1, None), predicate("a", Compare::Lt, 5, None)];
        check("a", &range, &[&["(1, 5)"]]);
        check("a*", &range, &[&["(1, inf.0]"]]);
        check("b, a", &range, &[ALL, &["(1, 5)"]]);
        let same = [predicate("a", Compare::Gt, 1, Some((1, "a"))), predicate("a", Compare::Lt, 5, Some((1, "a")))];
        check("a*", &same, &[&["(1, 5)"]]);
        let two = [predicate("a", Compare::Gt, 1, Some((1, "a"))), predicate("a", Compare::Lt, 5, Some((2, "a")))];
        check("a*", &two, &[&["(1, inf.0]"]]);
    }

    #[test]
    fn inside_elements_ranges_intersect_when_there_is_no_array_below() {
        let same = [predicate("a.b", Compare::Gt, 1, Some((1, "a"))), predicate("a.b", Compare::Lt, 5, Some((1, "a")))];
        check("a.b**", &same, &[&["(1, 5)"]]);
        check("a.b*", &same, &[&["(1, inf.0]"]]);
    }

    #[test]
    fn components_below_one_array_need_one_element() {
        let apart = [predicate("a.b", Compare::Eq, 1, None), predicate("a.c", Compare::Eq, 5, None)];
        check("a.b**, a.c**", &apart, &[&["[1, 1]"], ALL]);
        check("a.b, a.c", &apart, &[&["[1, 1]"], &["[5, 5]"]]);
        check("a.b*, a.c", &apart, &[&["[1, 1]"], &["[5, 5]"]]);
        let same = [predicate("a.b", Compare::Eq, 1, Some((1, "a"))), predicate("a.c", Compare::Eq, 5, Some((1, "a")))];
        check("a.b**, a.c**", &same, &[&["[1, 1]"], &["[5, 5]"]]);
        let outer =
            [predicate("x.a.b", Compare::Eq, 1, Some((1, "x"))), predicate("x.a.c", Compare::Eq, 5, Some((1, "x")))];
        check("x.a.b**, x.a.c**", &outer, &[&["[1, 1]"], ALL]);
        let array_and_scalar = [predicate("a", Compare::Eq, 1, None), predicate("x", Compare::Eq, 5, None)];
        check("a*, x", &array_and_scalar, &[&["[1, 1]"], &["[5, 5]"]]);
    }
}
