//! Circles on the sphere, and rings between two of them.

use s2::r3::vector::Vector;

use super::arc::{TOLERANCE, angle, opposite};
use super::cell::{Cell, MARGIN};
use super::cover::{Region, Relation};
use super::geometry::Geometry;

/// As MongoDB has it: the radius at the equator.
pub const EARTH_RADIUS_METRES: f64 = 6_378_100.0;

#[derive(Clone, Copy, Debug)]
pub struct Cap {
    pub center: Vector,
    /// An angle; from half a turn on it is the whole sphere.
    pub radius: f64,
}

impl Cap {
    /// Returns true if all of the geometry is inside. The point farthest from the centre is the one nearest to its antipode.
    pub fn contains(&self, geometry: &Geometry) -> bool {
        match geometry {
            Geometry::Point(place) => angle(self.center, place.point) <= self.radius + TOLERANCE,
            other => std::f64::consts::PI - other.distance(opposite(self.center)) <= self.radius + TOLERANCE,
        }
    }
}

impl Region for Cap {
    fn relation(&self, cell: &Cell) -> Relation {
        Annulus { center: self.center, near: 0.0, far: self.radius }.relation(cell)
    }
}

/// Points at least `near` and at most `far` from the centre.
#[derive(Clone, Copy, Debug)]
pub struct Annulus {
    pub center: Vector,
    pub near: f64,
    pub far: f64,
}

impl Region for Annulus {
    fn relation(&self, cell: &Cell) -> Relation {
        let (nearest, farthest) = (cell.distance(self.center), cell.distance_max(self.center));
        match () {
            () if nearest > self.far + MARGIN || farthest < self.near - MARGIN => Relation::Outside,
            () if nearest >= self.near && farthest <= self.far => Relation::Inside,
            () => Relation::Crosses,
        }
    }
}
