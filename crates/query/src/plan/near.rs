//! Documents by their distance: a geospatial index, read ring by ring.

use arbor_lang::Code;
use arbor_lang::geo::{Grid, Near, NearFrom, cell_range};
use arbor_store::{Collection, FieldKind};
use arbor_txn::View;

use super::access::{Access, IndexAccess, Plans, ScanRange, Solution};
use super::choose::{residual, same_pattern};
use super::geo::{of_cells, of_grid};
use super::index_bounds::IndexBounds;
use super::index_shape::{IndexShape, IndexSource};
use super::interval::{Endpoint, Interval, Intervals};
use super::key_bounds::KeyBounds;
use super::predicate::{Readings, conjuncts};
use super::query::{ChosenIndex, Query};
use super::sort_order::Direction;
use crate::{Error, Result};

/// Keys that the first ring should have.
const FIRST_RING_KEYS: u64 = 32;
/// First ring's share of the maximum distance, where nothing is known about the index.
const FIRST_RING_SHARE: f64 = 1e-5;

#[derive(Clone, Debug)]
pub struct NearAccess {
    pub shape: IndexShape,
    pub near: Near,
    /// The component that holds the places.
    part: usize,
    /// Intervals of the other components.
    intervals: Vec<Intervals>,
    /// Width of the first ring.
    pub first_width: f64,
}

impl NearAccess {
    /// Returns a scan of everything between two distances, and more. None: nothing can be there.
    pub fn ring(&self, near: f64, far: f64) -> Option<IndexAccess> {
        let own = match self.grid() {
            Some(grid) => of_grid(self.near.grid_ranges(grid, near, far)?),
            None => of_cells(&self.near.cells(near, far)?),
        };
        let mut intervals = self.intervals.clone();
        *intervals.get_mut(self.part)? = own;
        let keys = KeyBounds::new(intervals.iter().zip(self.shape.parts.iter().map(|part| part.descending)));
        (!keys.is_empty()).then(|| IndexAccess {
            shape: self.shape.clone(),
            range: ScanRange::Components(keys),
            intervals,
            direction: Direction::Forward,
        })
    }

    /// The farthest that anything in the index can be.
    pub fn farthest(&self) -> f64 {
        self.near.farthest(self.grid())
    }

    /// Rings are not narrower.
    pub fn width_min(&self) -> f64 {
        match self.grid() {
            Some(grid) => grid.step_width() / 4.0,
            None => self.farthest() * 1e-9,
        }
    }

    /// Errors: the index has no place for the point.
    fn check_point(&self) -> Result<()> {
        match (self.grid(), self.near.from) {
            (Some(grid), NearFrom::Plane(x, y)) if !grid.contains((x, y)) => {
                let Grid { min, max, .. } = grid;
                let point = format!("{{ 0: {x:?}, 1: {y:?} }}");
                let message = format!("point not in interval of [ {min}, {max} ] :: caused by :: {point}");
                Err(arbor_lang::Error::location(16433, message).into())
            }
            _ => Ok(()),
        }
    }

    fn grid(&self) -> Option<&Grid> {
        let is_plane = self.shape.parts.get(self.part).is_some_and(|part| part.kind == FieldKind::Plane);
        self.shape.geo.as_ref()?.grid.as_ref().filter(|_| is_plane)
    }

    /// Documents are sparse or dense: the cell around the point that has some keys says how far to reach.
    fn first_ring(&self, view: &dyn View, collection: &Collection) -> Result<f64> {
        let usual = self.farthest() * FIRST_RING_SHARE;
        let IndexSource::Secondary(at) = self.shape.source else { return Ok(usual) };
        let (Some(index), 0) = (collection.indexes.get(at), self.part) else { return Ok(usual) };
        for level in (2..=22).rev() {
            let (intervals, reach) = match (self.near.cell_around(level), self.grid()) {
                (Some((cell, reach)), None) => {
                    let range = cell_range(cell);
                    let end = |cell: i64| Endpoint::included(arbor_bson::Value::Int64(cell));
                    (Intervals::of(vec![Interval::new(end(*range.start()), end(*range.end()))]), reach)
                }
                (_, Some(grid)) => {
                    let reach = (self.farthest() / 2f64.powi(level as i32)).max(grid.step_width());
                    match self.near.grid_ranges(grid, 0.0, reach) {
                        Some(ranges) => (of_grid(ranges), reach),
                        None => return Ok(usual),
                    }
                }
                (None, None) => return Ok(usual),
            };
            let mut keys = 0;
            for span in KeyBounds::new([(&intervals, false)]).hulls(4) {
                keys += index.estimate(view, &span.low, span.high.as_deref())?.keys;
            }
            if keys >= FIRST_RING_KEYS {
                return Ok(reach);
            }
        }
        Ok(self.farthest())
    }
}

pub(super) fn plan(view: &dyn View, collection: &Collection, query: &Query, near: &Near) -> Result<Plans> {
    if matches!(query.hint, Some(ChosenIndex::Natural(_))) {
        return Err(Error::bad_value("geoNear expression not allowed with $natural sort order/hint"));
    }
    let near = match near.path.as_str() {
        "" => Near { path: only_path(collection, near)?, ..near.clone() },
        _ => near.clone(),
    };
    let shapes = IndexShape::of(collection).into_iter().filter(|shape| fits_hint(shape, query.hint.as_ref()));
    let readings = Readings::new(&query.filter);
    let candidate = |shape: IndexShape| {
        let usable = |kind: FieldKind| serves(kind, &near);
        let part = shape.parts.iter().position(|part| part.path == near.path.as_str() && usable(part.kind))?;
        let bounds = IndexBounds::of(&shape, &readings.of(&shape.collation));
        let open_before = bounds.intervals.iter().take(part).filter(|all| all.is_full()).count();
        let bounded = bounds.intervals.iter().filter(|all| !all.is_full()).count();
        let rank = (open_before, kind_rank(&shape, part), std::cmp::Reverse(bounded));
        shape.holds_all_of(&query.filter).then_some((rank, shape, part, bounds))
    };
    let mut candidates: Vec<_> = shapes.filter_map(candidate).collect();
    candidates.sort_by_key(|(rank, ..)| *rank);
    let mut candidates = candidates.into_iter();
    let Some((_, shape, part, bounds)) = candidates.next() else { return Err(no_index(collection)) };
    let mut settled = bounds.settled;
    settled.extend(conjuncts(query.filter.root()).iter().position(is_near));
    let mut access = NearAccess { shape, near, part, intervals: bounds.intervals, first_width: 0.0 };
    access.check_point()?;
    access.first_width = access.first_ring(view, collection)?.max(access.width_min());
    let rest = residual(&query.filter, &settled);
    Ok(Plans::only(Solution {
        sorts: query.sort.is_some(),
        ..Solution::unsorted(Access::Near(Box::new(access)), rest)
    }))
}

fn is_near(node: &arbor_lang::matcher::Node) -> bool {
    matches!(node, arbor_lang::matcher::Node::Near(_))
}

/// Returns true if distances can be found with components of this kind.
fn serves(kind: FieldKind, near: &Near) -> bool {
    match near.from {
        NearFrom::Metres(_) => kind == FieldKind::Sphere,
        NearFrom::Radians(_) => kind.is_geo(),
        NearFrom::Plane(..) => kind == FieldKind::Plane,
    }
}

/// Spherical cells come first where both kinds would do.
fn kind_rank(shape: &IndexShape, part: usize) -> u8 {
    u8::from(shape.parts.get(part).is_some_and(|part| part.kind == FieldKind::Plane))
}

fn fits_hint(shape: &IndexShape, hint: Option<&ChosenIndex>) -> bool {
    match hint {
        None | Some(ChosenIndex::Natural(_)) => true,
        Some(ChosenIndex::Name(name) | ChosenIndex::HiddenToo(name)) => shape.name == *name,
        Some(ChosenIndex::Pattern(pattern)) => same_pattern(pattern, &shape.key_pattern()),
    }
}

fn no_index(collection: &Collection) -> Error {
    let message = format!(
        "error processing query: ns={} planner returned error :: caused by :: unable to find index for $geoNear query",
        collection.namespace
    );
    Error::new(Code::NO_QUERY_EXECUTION_PLANS, message)
}

/// The field of the only index of places, for a `$geoNear` that names none.
fn only_path(collection: &Collection, near: &Near) -> Result<arbor_lang::Path> {
    let shapes = IndexShape::of(collection);
    for kind in [FieldKind::Sphere, FieldKind::Plane] {
        let own = shapes.iter().filter_map(|shape| shape.parts.iter().find(|part| part.kind == kind));
        let mut own = own.filter(|_| serves(kind, near));
        match (own.next(), own.next()) {
            (Some(only), None) => return Ok(arbor_lang::Path::new(&only.path)),
            (Some(_), Some(_)) => {
                let (word, namespace) = (kind.word().unwrap_or_default(), &collection.namespace);
                let message =
                    format!("There is more than one {word} index on {namespace}; unsure which to use for $geoNear");
                return Err(Error::new(Code::INDEX_NOT_FOUND, message));
            }
            (None, _) => {}
        }
    }
    let of_places =
        |shape: &IndexShape| shape.parts.iter().any(|part| matches!(part.kind, FieldKind::Sphere | FieldKind::Plane));
    if shapes.iter().any(of_places) {
        return Err(no_index(collection));
    }
    let message = "$geoNear requires a 2d or 2dsphere index, but none were found";
    Err(Error::new(Code::INDEX_NOT_FOUND, message))
}
