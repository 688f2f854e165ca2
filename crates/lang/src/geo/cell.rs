//! S2 cells as regions: each is what four half-spaces through the centre of the sphere have in common, which makes every
//! question about a geodesic one about a straight line.

use s2::cellid::CellID;
use s2::r3::vector::Vector;

use super::arc::{Arc, angle, opposite};

/// A cell counts as larger by this (G2), in radians.
pub(super) const MARGIN: f64 = 1e-13;

/// Directions of `u`, `v` and of the centre of each face.
const AXES: [[[f64; 3]; 3]; 6] = [
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    [[-1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]],
    [[0.0, 0.0, -1.0], [0.0, -1.0, 0.0], [-1.0, 0.0, 0.0]],
    [[0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]],
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]],
];

pub struct Cell {
    pub id: CellID,
    /// Points inside have no negative product with any of them.
    planes: [Vector; 4],
    /// Counterclockwise.
    corners: [Vector; 4],
    pub center: Vector,
}

impl Cell {
    pub fn new(id: CellID) -> Cell {
        let axis = |[x, y, z]: [f64; 3]| Vector::new(x, y, z);
        let axes = AXES.get(usize::from(id.face())).copied().unwrap_or_default();
        let [u, v, w] = axes.map(axis);
        let bound = id.bound_uv();
        let (u_low, u_high, v_low, v_high) = (bound.x.lo, bound.x.hi, bound.y.lo, bound.y.hi);
        let at = |a: f64, b: f64| (w + u * a + v * b).normalize();
        Cell {
            id,
            planes: [u - w * u_low, w * u_high - u, v - w * v_low, w * v_high - v],
            corners: [at(u_low, v_low), at(u_high, v_low), at(u_high, v_high), at(u_low, v_high)],
            center: at((u_low + u_high) / 2.0, (v_low + v_high) / 2.0),
        }
    }

    pub fn faces() -> impl Iterator<Item = Cell> {
        (0..6).map(|face| Cell::new(CellID::from_face(face)))
    }

    pub fn children(&self) -> impl Iterator<Item = Cell> {
        self.id.children().into_iter().map(Cell::new)
    }

    pub fn level(&self) -> u64 {
        self.id.level()
    }

    pub fn contains(&self, p: Vector) -> bool {
        self.planes.iter().all(|plane| plane.dot(&p) >= -MARGIN)
    }

    /// Clips the arc's chord by the half-spaces.
    pub fn intersects(&self, arc: &Arc) -> bool {
        let (mut first, mut last) = (0.0f64, 1.0f64);
        for plane in &self.planes {
            let (a, b) = (plane.dot(&arc.a) + MARGIN, plane.dot(&arc.b) + MARGIN);
            match (a < 0.0, b < 0.0) {
                (true, true) => return false,
                (true, false) => first = first.max(a / (a - b)),
                (false, true) => last = last.min(a / (a - b)),
                (false, false) => {}
            }
        }
        first <= last
    }

    fn edges(&self) -> impl Iterator<Item = Arc> {
        let [a, b, c, d] = self.corners;
        [Arc::new(a, b), Arc::new(b, c), Arc::new(c, d), Arc::new(d, a)].into_iter()
    }

    /// The angle from `p` to the nearest point of the cell.
    pub fn distance(&self, p: Vector) -> f64 {
        if self.contains(p) {
            return 0.0;
        }
        self.edges().map(|edge| edge.distance(p)).fold(f64::MAX, f64::min)
    }

    /// The angle to the farthest one.
    pub fn distance_max(&self, p: Vector) -> f64 {
        std::f64::consts::PI - self.distance(opposite(p))
    }

    /// Half of the longer diagonal.
    pub fn radius(&self) -> f64 {
        self.corners.iter().map(|corner| angle(*corner, self.center)).fold(0.0, f64::max)
    }
}

/// Returns the leaf cell that contains a point.
pub(super) fn leaf(p: Vector) -> CellID {
    CellID::from(s2::point::Point(p))
}

#[cfg(test)]
mod tests {
    use super::super::arc::point_at;
    use super::*;

    #[test]
    fn a_cell_is_where_its_leaves_are() {
        for (lng, lat) in
            [(0.0, 0.0), (45.0, 0.0), (-73.9, 40.7), (180.0, -20.0), (10.0, 90.0), (100.0, -89.0), (-60.0, 35.3)]
        {
            let p = point_at(lng, lat);
            for level in [0, 1, 5, 12, 29, 30] {
                let cell = Cell::new(leaf(p).parent(level));
                assert!(cell.contains(p), "{lng} {lat} {level}");
                assert!(cell.distance(p) == 0.0 && cell.distance_max(p) <= 2.0 * cell.radius() + 1e-12);
                assert!(cell.id.contains(&leaf(cell.center)));
                assert!(cell.intersects(&Arc::new(p, point_at(lng + 1.0, lat * 0.9))));
                assert!(!cell.contains(opposite(p)));
            }
        }
    }
}
