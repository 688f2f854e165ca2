//! Closed rings and what they enclose: the side to the left of their edges.

use std::collections::HashMap;
use std::f64::consts::PI;

use s2::cellid::CellID;
use s2::point::Point;
use s2::r3::vector::Vector;

use super::arc::{Arc, TOLERANCE, angle, opposite};
use super::cell::Cell;
use super::chain::{Bound, Chain};
use crate::stop::{tick, tick_for};

/// Pairs of edges that are looked at for crossings. Rings as they come from maps need some 10 for each edge.
const PAIRS_MAX: usize = 5_000_000;

#[derive(Debug)]
pub struct Ring {
    pub chain: Chain,
    /// It encloses the smaller side, so that a bound of the edges is one of the inside.
    bounded: bool,
}

/// Which side a ring encloses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winding {
    /// The smaller one.
    Smaller,
    /// The left one, however large.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Inside,
    Boundary,
    Outside,
}

/// Why vertices are no ring.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    Duplicate(usize, usize),
    Opposite(usize, usize),
    Crossing(usize, usize),
    TooComplex,
}

impl Ring {
    /// Requires at least three vertices, the first one once. Cut short when the statement is to stop.
    pub fn new(vertices: Vec<Vector>, winding: Winding) -> Result<Ring, Fault> {
        check_vertices(&vertices)?;
        let chain = Chain::new(vertices, true);
        check_crossings(&chain)?;
        let turns_left = turning(&chain.vertices) >= 0.0;
        let chain = match (turns_left, winding) {
            (false, Winding::Smaller) => Chain::new(chain.vertices.into_iter().rev().collect(), true),
            _ => chain,
        };
        let mut ring = Ring { chain, bounded: turns_left || winding == Winding::Smaller };
        ring.set_probes();
        Ok(ring)
    }

    pub fn place(&self, p: Vector) -> Place {
        if self.bounded && self.chain.bound().excludes(p) {
            return Place::Outside;
        }
        match () {
            () if self.chain.touches(p) => Place::Boundary,
            () if self.encloses(p) => Place::Inside,
            () => Place::Outside,
        }
    }

    /// Returns a bound of the whole inside.
    pub fn bound(&self) -> Bound {
        match self.bounded {
            true => self.chain.bound(),
            false => Bound { radius: f64::INFINITY, ..self.chain.bound() },
        }
    }

    /// Returns a point in this relation to the ring. Of a ring's triangles some are ears: their centres are inside.
    pub fn point_at(&self, place: Place) -> Option<Vector> {
        let vertices = &self.chain.vertices;
        let triangles = vertices.iter().zip(vertices.iter().cycle().skip(1)).zip(vertices.iter().cycle().skip(2));
        let triangles = triangles.take_while(|_| tick().is_ok());
        let mut centers = triangles.map(|((a, b), c)| (*a + *b + *c).normalize());
        centers.find(|center| self.place(*center) == place).or_else(|| {
            let far = opposite(self.chain.bound().center);
            (self.place(far) == place).then_some(far)
        })
    }

    /// Requires that `p` is not on the boundary.
    fn encloses(&self, p: Vector) -> bool {
        let leaf = self.chain.index.as_ref().and_then(|index| index.leaf(p));
        match leaf.and_then(|leaf| leaf.probe.map(|probe| (leaf, probe))) {
            Some((leaf, (probe, inside))) => inside ^ self.parity(p, probe, leaf.edges.iter().map(|at| *at as usize)),
            None => self.encloses_by_all_edges(p),
        }
    }

    /// Goes from `p` to the middle of an edge: on its left is the inside, and each crossing on the way changes sides.
    pub(super) fn encloses_by_all_edges(&self, p: Vector) -> bool {
        let sine = |edge: &Arc| edge.normal().normalize().dot(&p);
        let apt = |edge: &Arc| sine(edge).abs() > 1e-3 && angle(p, edge.middle()) < 3.0;
        let found = self.chain.edges().position(|edge| apt(&edge));
        let best = || {
            let all = self.chain.edges().enumerate();
            all.max_by(|(_, a), (_, b)| sine(a).abs().total_cmp(&sine(b).abs())).map_or(0, |(at, _)| at)
        };
        let at = found.unwrap_or_else(best);
        let Some(edge) = self.chain.edge(at) else { return false };
        let from_left = edge.normal().dot(&p) > 0.0;
        let others = (0..self.chain.edge_count()).filter(|other| *other != at);
        from_left ^ self.parity(p, edge.middle(), others)
    }

    /// Returns true if the arc between two points crosses an odd number of these edges.
    fn parity(&self, from: Vector, to: Vector, edges: impl Iterator<Item = usize>) -> bool {
        let way = Arc::new(from, to);
        let normal = way.normal();
        let crosses = |edge: &Arc| {
            let (a, b) = (normal.dot(&edge.a) > 0.0, normal.dot(&edge.b) > 0.0);
            let across = edge.normal();
            let (start, end) = (across.dot(&from) > 0.0, across.dot(&to) > 0.0);
            a != b && start != end && a == end
        };
        edges.filter_map(|at| self.chain.edge(at)).filter(crosses).count() % 2 == 1
    }

    /// Leaves follow each other along a curve, so that each one's first point is reached from that of the one before it
    /// through the edges of the two alone.
    fn set_probes(&mut self) {
        let Some(index) = &self.chain.index else { return };
        let ids: Vec<CellID> = index.leaves().iter().map(|leaf| leaf.id).collect();
        let Some(first) = ids.first() else { return };
        let at = |id: CellID| Point::from(id).0;
        let mut inside = self.encloses_by_all_edges(at(first.range_min()));
        let mut probes = vec![(at(first.range_min()), inside)];
        for pair in index.leaves().windows(2).take_while(|_| tick().is_ok()) {
            let [one, next] = pair else { continue };
            let (start, end, reached) = (at(one.id.range_min()), at(one.id.range_max()), at(next.id.range_min()));
            let own = || one.edges.iter().map(|at| *at as usize);
            let both = own().chain(next.edges.iter().filter(|at| !one.edges.contains(at)).map(|at| *at as usize));
            inside ^= self.parity(start, end, own()) ^ self.parity(end, reached, both);
            probes.push((reached, inside));
        }
        if let Some(index) = &mut self.chain.index {
            for (leaf, probe) in index.leaves_mut().iter_mut().zip(probes) {
                leaf.probe = Some(probe);
            }
        }
    }

    /// Returns true if an edge is in the cell.
    pub fn has_edge_in(&self, cell: &Cell) -> bool {
        has_edge_in(&self.chain, cell)
    }
}

pub(super) fn has_edge_in(chain: &Chain, cell: &Cell) -> bool {
    let bound = chain.bound();
    if bound.radius < f64::INFINITY && angle(bound.center, cell.center) > bound.radius + cell.radius() + 1e-9 {
        return false;
    }
    match &chain.index {
        Some(index) => index.any_in(cell, |at| chain.edge(at).is_some_and(|edge| cell.intersects(&edge))),
        None => chain.edges().any(|edge| cell.intersects(&edge)),
    }
}

fn check_vertices(vertices: &[Vector]) -> Result<(), Fault> {
    let mut seen: HashMap<[u64; 3], usize> = HashMap::with_capacity(vertices.len());
    for (at, v) in vertices.iter().enumerate().take_while(|_| tick().is_ok()) {
        if let Some(first) = seen.insert([v.x.to_bits(), v.y.to_bits(), v.z.to_bits()], at) {
            return Err(Fault::Duplicate(first, at));
        }
        let next = (at + 1) % vertices.len();
        if vertices.get(next).is_some_and(|next| angle(*v, *next) > PI - TOLERANCE) {
            return Err(Fault::Opposite(at, next));
        }
    }
    Ok(())
}

fn check_crossings(chain: &Chain) -> Result<(), Fault> {
    let count = chain.edge_count();
    let edges: Vec<Arc> = chain.edges().collect();
    let mut pairs = 0;
    let mut check = |among: &[u32]| -> Result<(), Fault> {
        pairs += among.len() * among.len() / 2;
        if pairs > PAIRS_MAX {
            return Err(Fault::TooComplex);
        }
        for (nth, a) in among.iter().enumerate() {
            for b in among.iter().skip(nth + 1) {
                let (first, last) = (*a.min(b) as usize, *a.max(b) as usize);
                let apart = last - first > 1 && (first, last) != (0, count - 1);
                if apart && matches!((edges.get(first), edges.get(last)), (Some(a), Some(b)) if a.crosses(b)) {
                    return Err(Fault::Crossing(first, last));
                }
            }
        }
        Ok(())
    };
    match &chain.index {
        Some(index) => {
            let mut leaves = index.leaves().iter().take_while(|leaf| tick_for(leaf.edges.len().pow(2)).is_ok());
            leaves.try_for_each(|leaf| check(&leaf.edges))
        }
        None => check(&(0..count as u32).collect::<Vec<_>>()),
    }
}

/// The sum of the turns at the vertices, positive to the left: a full turn less the area on the left.
fn turning(vertices: &[Vector]) -> f64 {
    let count = vertices.len();
    let corner = |at: usize| {
        let (a, b, c) = (vertices.get((at + count - 1) % count)?, vertices.get(at)?, vertices.get((at + 1) % count)?);
        let (before, after) = (Arc::new(*a, *b).normal().normalize(), Arc::new(*b, *c).normal().normalize());
        Some(before.cross(&after).dot(b).atan2(before.dot(&after)))
    };
    (0..count).take_while(|_| tick().is_ok()).filter_map(corner).sum()
}
