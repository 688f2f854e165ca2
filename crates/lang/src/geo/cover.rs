//! Covers of regions by S2 cells: keys of a `2dsphere` index, and the ranges of keys that a query reads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use s2::cellid::CellID;
use s2::r3::vector::Vector;

use super::cell::{Cell, leaf};
use super::geometry::Geometry;
use crate::stop::tick;

/// Cells of one cover at most.
pub const COVER_CELLS_MAX: usize = 20;
/// Covers have no smaller cells (some 40 cm). Single points are leaf cells.
const LEVEL_MAX: u64 = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The cell has nothing of the region.
    Outside,
    /// It may have something.
    Crosses,
    /// All of it is in the region.
    Inside,
}

pub trait Region {
    fn relation(&self, cell: &Cell) -> Relation;
}

/// The keys of a value: cells of which none contains another.
pub fn cells_of(geometry: &Geometry) -> Vec<i64> {
    if let Geometry::Point(place) = geometry {
        return vec![leaf(place.point).0 as i64];
    }
    cells_of_region(geometry, COVER_CELLS_MAX)
}

/// A cover of the region.
pub fn cells_of_region(region: &dyn Region, cells_max: usize) -> Vec<i64> {
    cover(region, cells_max).into_iter().map(|id| id.0 as i64).collect()
}

/// The keys of all cells inside a cell, itself among them.
pub fn cell_range(cell: i64) -> RangeInclusive<i64> {
    let id = CellID(cell as u64);
    id.range_min().0 as i64..=id.range_max().0 as i64
}

/// The cells around a cell, the largest first.
pub fn enclosing_cells(cell: i64) -> impl Iterator<Item = i64> {
    let id = CellID(cell as u64);
    (0..id.level()).map(move |level| id.parent(level).0 as i64)
}

/// Divides the largest cell at the edge of the region as long as there may be more cells. Cut short when the statement is to stop.
fn cover(region: &dyn Region, cells_max: usize) -> Vec<CellID> {
    let mut done: Vec<CellID> = Vec::new();
    let mut open: BinaryHeap<(Reverse<u64>, Reverse<CellID>)> = BinaryHeap::new();
    let sort = |cells: &mut dyn Iterator<Item = Cell>| -> (Vec<CellID>, Vec<CellID>) {
        let (mut whole, mut partly) = (Vec::new(), Vec::new());
        for cell in cells.take_while(|_| tick().is_ok()) {
            match region.relation(&cell) {
                Relation::Outside => {}
                Relation::Inside => whole.push(cell.id),
                Relation::Crosses => partly.push(cell.id),
            }
        }
        (whole, partly)
    };
    let (whole, partly) = sort(&mut Cell::faces());
    done.extend(whole);
    open.extend(partly.into_iter().map(|id| (Reverse(0), Reverse(id))));
    while let Some((Reverse(level), Reverse(id))) = open.pop() {
        if level >= LEVEL_MAX {
            done.push(id);
            continue;
        }
        let (whole, partly) = sort(&mut Cell::new(id).children());
        let parts = whole.len() + partly.len();
        if parts > 1 && done.len() + open.len() + parts > cells_max {
            done.push(id);
            continue;
        }
        done.extend(whole);
        open.extend(partly.into_iter().map(|id| (Reverse(level + 1), Reverse(id))));
    }
    merged(done)
}

/// Four cells that make up their parent become one.
fn merged(mut cells: Vec<CellID>) -> Vec<CellID> {
    cells.sort_unstable();
    let mut out: Vec<CellID> = Vec::with_capacity(cells.len());
    for id in cells {
        out.push(id);
        while let Some(parent) = out.last().filter(|last| last.level() > 0).map(CellID::immediate_parent) {
            let from = out.len().saturating_sub(4);
            let is_whole = out.len() >= 4 && parent.children().iter().eq(out.iter().skip(from));
            if !is_whole {
                break;
            }
            out.truncate(from);
            out.push(parent);
        }
    }
    out
}

/// The cell of a level around a point.
pub(super) fn cell_around(p: Vector, level: u64) -> i64 {
    leaf(p).parent(level).0 as i64
}

#[cfg(test)]
mod tests {
    use super::super::arc::point_at;
    use super::super::cap::Cap;
    use super::*;

    #[test]
    fn a_cover_is_small_and_holds_its_region() {
        for (lng, lat, radius) in
            [(0.0, 0.0, 0.1), (45.0, 0.0, 1e-4), (10.0, 90.0, 0.5), (-73.0, 40.0, 1e-7), (1.0, 1.0, 3.0)]
        {
            let cap = Cap { center: point_at(lng, lat), radius };
            let cells = cells_of_region(&cap, COVER_CELLS_MAX);
            assert!((1..=COVER_CELLS_MAX).contains(&cells.len()), "{cells:?}");
            for turn in 0..100 {
                let towards = point_at(lng + f64::from(turn) * 3.6, lat * 0.5);
                let arc = super::super::arc::Arc::new(cap.center, towards).normal().normalize();
                let at = radius * 0.999 * f64::from(turn) / 100.0;
                let p = cap.center * at.cos() + arc.cross(&cap.center) * at.sin();
                let own = leaf(p).0 as i64;
                assert!(cells.iter().any(|cell| cell_range(*cell).contains(&own)), "{lng} {lat} {radius}");
            }
        }
    }

    #[test]
    fn four_children_are_their_parent() {
        let parent = leaf(point_at(12.0, 34.0)).parent(9);
        let mut cells: Vec<CellID> = parent.children().to_vec();
        cells.rotate_left(2);
        assert_eq!(merged(cells), [parent]);
        assert_eq!(merged(parent.children()[1..].to_vec()).len(), 3);
    }
}
