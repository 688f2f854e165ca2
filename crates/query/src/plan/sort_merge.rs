//! Several scans in place of one and a sort: `{ a: { $in: [1, 2] } }` sorted by `b` is a scan of `a, b` for each value of
//! `a`, each of which gives the order; their rows are merged. The branches of an `$or` are merged likewise.

use arbor_lang::sort::SortPart;

use super::index_bounds::IndexBounds;
use super::index_shape::IndexShape;
use super::interval::{Interval, Intervals};
use super::sort_order::{self, Direction};

/// Scans that one merge may have. COMPAT: MongoDB's internalQueryMaxScansToExplode.
pub(super) const SCANS_MAX: usize = 200;

/// The bounds of one scan for each combination of values in front of what is sorted by, and the direction in which each
/// gives the order. None: they do not give it, or there are too many.
pub(super) fn explode(
    shape: &IndexShape,
    bounds: &IndexBounds,
    sort: &[SortPart],
) -> Option<(Vec<IndexBounds>, Direction)> {
    let mut scans = vec![bounds.clone()];
    for (at, intervals) in bounds.intervals.iter().enumerate() {
        let points = intervals.as_slice();
        if points.is_empty() || !points.iter().all(Interval::is_point) || scans.len() * points.len() > SCANS_MAX {
            return None;
        }
        scans = scans.iter().flat_map(|scan| points.iter().map(|point| narrowed(scan, at, point))).collect();
        // which values they are makes no difference
        if let Some(direction) = scans.first().and_then(|scan| sort_order::direction(shape, scan, sort)) {
            return Some((scans, direction));
        }
    }
    None
}

fn narrowed(scan: &IndexBounds, at: usize, point: &Interval) -> IndexBounds {
    let mut scan = scan.clone();
    if let Some(intervals) = scan.intervals.get_mut(at) {
        *intervals = Intervals::of(vec![point.clone()]);
    }
    scan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::index_shape::testing::shape;
    use crate::plan::predicate::predicates;
    use arbor_bson::{ArrayBuf, DocBuf};
    use arbor_lang::{Context, Filter, SortPattern};

    fn among(values: impl IntoIterator<Item = i32>) -> DocBuf {
        DocBuf::new().with("$in", &values.into_iter().collect::<ArrayBuf>())
    }

    /// Checks the number of scans, if they give the order.
    #[track_caller]
    fn check(index: &str, filter: &DocBuf, sort: &[(&str, i32)], expected: Option<(usize, Direction)>) {
        let filter = Filter::parse(filter.as_doc(), &Context::new(0)).unwrap();
        let sort: DocBuf = sort.iter().copied().collect();
        let shape = shape(index);
        let simple = arbor_lang::Collation::simple();
        let texts = crate::plan::texts::Texts::of(&simple, &simple);
        let bounds = IndexBounds::of(&shape, &predicates(filter.root(), texts));
        let found = explode(&shape, &bounds, SortPattern::parse(sort.as_doc(), &Context::new(0)).unwrap().parts());
        assert_eq!(found.map(|(scans, direction)| (scans.len(), direction)), expected, "{index}");
    }

    #[test]
    fn values_in_front_of_the_sort_are_scanned_one_by_one() {
        use Direction::{Backward, Forward};
        let two = DocBuf::new().with("a", &among([1, 2]));
        check("a, b", &two, &[("b", 1)], Some((2, Forward)));
        check("a, b", &two, &[("b", -1)], Some((2, Backward)));
        check("a, b", &two, &[("b", 1), ("a", -1)], Some((2, Forward)));
        check("a*, b", &two, &[("b", 1)], Some((2, Forward)));
        check("a*, b", &two, &[("b", 1), ("a", 1)], None);
        check("a, b*", &two, &[("b", 1)], None);
        check("a, c, b", &two, &[("b", 1)], None);
        let six = DocBuf::new().with("a", &among([1, 2])).with("c", &among([1, 2, 3]));
        check("a, c, b", &six, &[("b", 1)], Some((6, Forward)));
        check("a, c, b", &six, &[("c", 1), ("b", 1)], Some((2, Forward)));
        let many = DocBuf::new().with("a", &among(0..201));
        check("a, b", &many, &[("b", 1)], None);
        let range = DocBuf::new().with("a", &DocBuf::new().with("$gt", 1i32));
        check("a, b", &range, &[("b", 1)], None);
    }
}
