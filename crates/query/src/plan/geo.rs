//! Places as bounds of one component of an index.

use arbor_bson::Value;
use arbor_lang::geo::{GeoTest, GridRange, cell_range, enclosing_cells};
use arbor_store::FieldKind;

use super::index_shape::IndexShape;
use super::interval::{Endpoint, Interval, Intervals};

/// The keys of all documents that may pass the test. None: the component does not help.
pub(super) fn intervals(shape: &IndexShape, kind: FieldKind, test: &GeoTest) -> Option<Intervals> {
    match kind {
        FieldKind::Sphere => test.cells().map(of_cells),
        FieldKind::Plane => test.grid_ranges(shape.geo.as_ref()?.grid.as_ref()?).map(of_grid),
        FieldKind::Plain | FieldKind::Hashed | FieldKind::Text => None,
    }
}

/// Returns intervals of everything inside the cells, and of the larger cells around them.
pub(super) fn of_cells(cells: &[i64]) -> Intervals {
    let mut intervals: Vec<Interval> = Vec::new();
    let mut around: Vec<i64> = Vec::new();
    for cell in cells {
        let range = cell_range(*cell);
        intervals.push(between(Value::Int64(*range.start()), Value::Int64(*range.end())));
        around.extend(enclosing_cells(*cell));
    }
    around.sort_unstable();
    around.dedup();
    intervals.extend(around.into_iter().map(|cell| Interval::point(Value::Int64(cell))));
    Intervals::of(intervals)
}

pub(super) fn of_grid(ranges: Vec<GridRange>) -> Intervals {
    Intervals::of(ranges.into_iter().map(|range| between(range.low, range.high)).collect())
}

fn between(low: Value, high: Value) -> Interval {
    Interval::new(Endpoint::included(low), Endpoint::included(high))
}
