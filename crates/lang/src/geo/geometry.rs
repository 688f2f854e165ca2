//! Things on the sphere.

use s2::r3::vector::Vector;

use super::arc::{angle, point_at};
use super::cell::Cell;
use super::chain::Chain;
use super::cover::{Region, Relation};
use super::polygon::Polygon;
use super::ring::has_edge_in;
use crate::stop::tick;

/// Longitude and latitude in degrees, and the point there.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub lng: f64,
    pub lat: f64,
    pub point: Vector,
}

impl Place {
    pub fn new(lng: f64, lat: f64) -> Place {
        Place { lng, lat, point: point_at(lng, lat) }
    }
}

#[derive(Debug)]
pub enum Geometry {
    Point(Place),
    Line(Chain),
    Polygon(Polygon),
    /// Any of the Multi types and GeometryCollection. Not empty, and without collections.
    Collection(Vec<Geometry>),
}

impl Geometry {
    /// Points, lines and polygons alone.
    pub fn parts(&self) -> &[Geometry] {
        match self {
            Geometry::Collection(parts) => parts,
            other => std::slice::from_ref(other),
        }
    }

    /// The angle from `p` to the nearest point.
    pub fn distance(&self, p: Vector) -> f64 {
        match self {
            Geometry::Point(place) => angle(place.point, p),
            Geometry::Line(chain) => chain.distance(p),
            Geometry::Polygon(polygon) => polygon.distance(p),
            Geometry::Collection(parts) => parts.iter().map(|part| part.distance(p)).fold(f64::MAX, f64::min),
        }
    }
}

impl Region for Geometry {
    fn relation(&self, cell: &Cell) -> Relation {
        let partly = |intersects: bool| if intersects { Relation::Crosses } else { Relation::Outside };
        match self {
            Geometry::Point(place) => partly(cell.contains(place.point)),
            Geometry::Line(chain) => partly(has_edge_in(chain, cell)),
            Geometry::Polygon(polygon) => polygon.relation(cell),
            Geometry::Collection(parts) => {
                let mut all = Relation::Outside;
                for part in parts.iter().take_while(|_| tick().is_ok()) {
                    match part.relation(cell) {
                        Relation::Inside => return Relation::Inside,
                        Relation::Crosses => all = Relation::Crosses,
                        Relation::Outside => {}
                    }
                }
                all
            }
        }
    }
}
