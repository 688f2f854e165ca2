//! Bounds of one index for one filter.
//!
//! M1: on a component with arrays two predicates may be true through two different keys, so only one of them bounds the
//! scan, unless one `$elemMatch` about the elements themselves holds both.
//! M2: of two components below one array only the first is bounded, unless the predicates of both stand in one
//! `$elemMatch` at exactly the path that they share: two predicates may be true through two different elements.

use super::index_shape::IndexShape;
use super::interval::Intervals;
use super::key_bounds::KeyBounds;
use super::predicate::Predicate;
use super::value_bounds::Exact;

#[derive(Clone, Debug)]
pub struct IndexBounds {
    pub intervals: Vec<Intervals>,
    /// Conjuncts of the filter that the bounds say completely.
    pub settled: Vec<usize>,
    /// No document that matches is missing in the index for want of the indexed fields.
    pub complete: bool,
}

impl IndexBounds {
    pub fn of(shape: &IndexShape, predicates: &[Predicate]) -> IndexBounds {
        let mut bounds = IndexBounds { intervals: Vec::new(), settled: Vec::new(), complete: !shape.sparse };
        let mut used: Vec<Vec<&Predicate>> = Vec::new();
        for (at, part) in shape.parts.iter().enumerate() {
            let own: Vec<&Predicate> = predicates
                .iter()
                .filter(|p| p.path == part.path && !(part.multikey && p.bounds.single_key_only))
                .collect();
            bounds.complete |= own.iter().any(|p| p.bounds.needs_field);
            let chosen = if part.multikey { chosen_on_arrays(shape, at, &own, &used) } else { own };
            bounds.settle(&chosen, part.multikey);
            let all = chosen.iter().map(|p| &p.bounds.intervals);
            bounds.intervals.push(all.fold(Intervals::full(), |sum, next| sum.intersect(next)));
            used.push(chosen);
        }
        bounds
    }

    fn settle(&mut self, chosen: &[&Predicate], multikey: bool) {
        let enough = if multikey { Exact::Always } else { Exact::SingleKey };
        let settled = chosen.iter().filter(|p| p.whole && p.bounds.exact >= enough);
        self.settled.extend(settled.map(|p| p.conjunct));
    }

    /// The first component is bounded, so that less than the whole index is read.
    pub fn narrows(&self) -> bool {
        self.intervals.first().is_some_and(|first| !first.is_full())
    }

    /// Leading components that are one value.
    pub fn points(&self) -> usize {
        self.intervals.iter().take_while(|intervals| intervals.is_point()).count()
    }

    pub fn keys(&self, shape: &IndexShape) -> KeyBounds {
        KeyBounds::new(self.intervals.iter().zip(shape.parts.iter().map(|part| part.descending)))
    }
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
            let shared = shared_path(&part.path, &other.path);
            let independent = !other.multikey || shared.is_empty() || chosen.is_empty();
            independent || chosen.iter().all(|p| same_element(p, candidate, shared))
        })
    };
    let Some(best) = own.iter().filter(|p| allowed(p)).min_by_key(|p| breadth(&p.bounds.intervals)) else {
        return Vec::new();
    };
    match &best.element {
        Some(element) if element.direct => {
            let together = |p: &&&Predicate| p.element.as_ref().is_some_and(|own| own.direct && own.id == element.id);
            own.iter().filter(together).copied().collect()
        }
        _ => vec![best],
    }
}

fn same_element(a: &Predicate, b: &Predicate, shared: &str) -> bool {
    match (&a.element, &b.element) {
        (Some(a), Some(b)) => a.id == b.id && a.path == shared,
        _ => false,
    }
}

/// `a.b` of `a.b.c` and `a.b.d`.
fn shared_path<'p>(a: &'p str, b: &str) -> &'p str {
    let equal = a.split('.').zip(b.split('.')).take_while(|(a, b)| a == b);
    let length: usize = equal.map(|(name, _)| name.len() + 1).sum();
    a.get(..length.saturating_sub(1)).unwrap_or(a)
}

/// Smaller is narrower.
fn breadth(intervals: &Intervals) -> usize {
    const RANGE: usize = 1 << 20;
    let of = |interval: &super::interval::Interval| match () {
        _ if interval.is_point() => 1,
        _ if interval.is_full() => 8 * RANGE,
        _ if !interval.low.inclusive && !interval.high.inclusive => RANGE,
        _ => 2 * RANGE,
    };
    intervals.as_slice().iter().map(of).sum()
}
