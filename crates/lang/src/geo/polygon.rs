//! Polygons: what a ring encloses, without what its holes enclose.

use s2::r3::vector::Vector;

use super::arc::Arc;
use super::cell::Cell;
use super::chain::Bound;
use super::cover::Relation;
use super::ring::{Place, Ring};

#[derive(Debug)]
pub struct Polygon {
    pub outer: Ring,
    pub holes: Vec<Ring>,
}

impl Polygon {
    pub fn rings(&self) -> impl Iterator<Item = &Ring> {
        std::iter::once(&self.outer).chain(&self.holes)
    }

    pub fn arcs(&self) -> impl Iterator<Item = Arc> + '_ {
        self.rings().flat_map(|ring| ring.chain.edges())
    }

    pub fn place(&self, p: Vector) -> Place {
        let outer = self.outer.place(p);
        if outer != Place::Inside {
            return outer;
        }
        for hole in &self.holes {
            match hole.place(p) {
                Place::Inside => return Place::Outside,
                Place::Boundary => return Place::Boundary,
                Place::Outside => {}
            }
        }
        Place::Inside
    }

    pub fn contains(&self, p: Vector) -> bool {
        self.place(p) != Place::Outside
    }

    pub fn bound(&self) -> Bound {
        self.outer.bound()
    }

    pub fn intersects(&self, arc: &Arc) -> bool {
        self.contains(arc.a) || self.contains(arc.b) || self.rings().any(|ring| ring.chain.intersects(arc))
    }

    pub fn distance(&self, p: Vector) -> f64 {
        if self.contains(p) {
            return 0.0;
        }
        self.rings().map(|ring| ring.chain.distance(p)).fold(f64::MAX, f64::min)
    }

    pub fn relation(&self, cell: &Cell) -> Relation {
        match () {
            () if self.rings().any(|ring| ring.has_edge_in(cell)) => Relation::Crosses,
            () if self.contains(cell.center) => Relation::Inside,
            () => Relation::Outside,
        }
    }
}
