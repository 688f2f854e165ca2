//! Rows of geodesics: a line, or a closed ring.

use s2::r3::vector::Vector;

use super::arc::{Arc, TOLERANCE, angle};
use super::edge_index::EdgeIndex;

/// Chains with fewer edges are searched edge by edge.
const INDEXED_FROM: usize = 33;

#[derive(Debug)]
pub struct Chain {
    pub vertices: Vec<Vector>,
    pub closed: bool,
    pub index: Option<EdgeIndex>,
    bound: Bound,
}

/// A circle around the vertices. Below a quarter of the sphere it is convex, so that the edges are inside as well.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub center: Vector,
    /// Infinite: it says nothing.
    pub radius: f64,
}

impl Chain {
    /// Requires at least two vertices; the first one of a closed chain is not repeated at the end.
    pub fn new(vertices: Vec<Vector>, closed: bool) -> Chain {
        let bound = Bound::of(&vertices);
        let mut chain = Chain { vertices, closed, index: None, bound };
        if chain.edge_count() >= INDEXED_FROM {
            chain.index = Some(EdgeIndex::build(&chain));
        }
        chain
    }

    pub fn edge_count(&self) -> usize {
        self.vertices.len() - usize::from(!self.closed)
    }

    pub fn edge(&self, at: usize) -> Option<Arc> {
        let next = if at + 1 == self.vertices.len() && self.closed { 0 } else { at + 1 };
        Some(Arc::new(*self.vertices.get(at)?, *self.vertices.get(next)?))
    }

    pub fn edges(&self) -> impl Iterator<Item = Arc> + '_ {
        (0..self.edge_count()).filter_map(|at| self.edge(at))
    }

    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Returns true if `accepts` is true for an edge that may intersect `arc`.
    pub fn any_near(&self, arc: &Arc, mut accepts: impl FnMut(usize, &Arc) -> bool) -> bool {
        if self.bound.excludes_arc(arc) {
            return false;
        }
        match &self.index {
            Some(index) => index.any_near(arc, &mut |at| self.edge(at).is_some_and(|edge| accepts(at, &edge))),
            None => self.edges().enumerate().any(|(at, edge)| accepts(at, &edge)),
        }
    }

    pub fn touches(&self, p: Vector) -> bool {
        let touches = |at: usize| self.edge(at).is_some_and(|edge| edge.touches(p));
        match &self.index {
            _ if self.bound.excludes(p) => false,
            // a leaf has the edges that pass it by less than its margin too
            Some(index) => index.leaf(p).is_some_and(|leaf| leaf.edges.iter().any(|at| touches(*at as usize))),
            None => (0..self.edge_count()).any(touches),
        }
    }

    pub fn intersects(&self, arc: &Arc) -> bool {
        self.any_near(arc, |_, edge| edge.intersects(arc))
    }

    /// The angle to the nearest point.
    pub fn distance(&self, p: Vector) -> f64 {
        self.edges().map(|edge| edge.distance(p)).fold(f64::MAX, f64::min)
    }
}

impl Bound {
    pub fn of(vertices: &[Vector]) -> Bound {
        let sum = vertices.iter().fold(Vector::new(0.0, 0.0, 0.0), |sum, vertex| sum + *vertex);
        let none = Bound { center: Vector::new(1.0, 0.0, 0.0), radius: f64::INFINITY };
        if sum.norm() < 1e-6 * vertices.len() as f64 {
            return none;
        }
        let center = sum.normalize();
        let radius = vertices.iter().map(|vertex| angle(center, *vertex)).fold(0.0, f64::max) + 2.0 * TOLERANCE;
        if radius < 1.5 { Bound { center, radius } } else { none }
    }

    pub fn excludes(&self, p: Vector) -> bool {
        self.radius < f64::INFINITY && angle(self.center, p) > self.radius
    }

    pub fn excludes_arc(&self, arc: &Arc) -> bool {
        self.radius < f64::INFINITY && arc.distance(self.center) > self.radius
    }
}
