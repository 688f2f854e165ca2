//! Which edges of a chain are in which part of the sphere: cells that hold few edges each.

use std::collections::VecDeque;

use s2::cellid::CellID;
use s2::r3::vector::Vector;

use super::arc::Arc;
use super::cell::{Cell, leaf};
use super::chain::Chain;
use crate::stop;

/// A cell with more edges is divided.
const EDGES_PER_LEAF: usize = 12;
/// Cells are not divided below this level (some 40 cm).
const LEVEL_MAX: u64 = 24;
/// Entries per edge, on average, from which on no cell is divided any more: long parallel edges are in
/// every cell that they pass.
const ENTRIES_PER_EDGE: usize = 16;

/// Leaves in the order of their cells; together they are the whole sphere.
#[derive(Debug)]
pub struct EdgeIndex {
    leaves: Vec<Leaf>,
}

#[derive(Debug)]
pub struct Leaf {
    pub id: CellID,
    pub edges: Vec<u32>,
    /// A point of the cell of which it is known whether the ring holds it; set by the ring.
    pub probe: Option<(Vector, bool)>,
}

impl EdgeIndex {
    /// Cut short when the statement is to stop.
    pub fn build(chain: &Chain) -> EdgeIndex {
        let all: Vec<u32> = (0..chain.edge_count() as u32).collect();
        let mut budget = ENTRIES_PER_EDGE * all.len();
        let mut leaves = Vec::new();
        let within = |cell: &Cell, edges: &[u32]| -> Vec<u32> {
            let intersects = |at: &&u32| chain.edge(**at as usize).is_some_and(|edge| cell.intersects(&edge));
            edges.iter().take_while(|_| stop::tick().is_ok()).filter(intersects).copied().collect()
        };
        let mut open: VecDeque<(Cell, Vec<u32>)> = VecDeque::new();
        for face in Cell::faces() {
            let edges = within(&face, &all);
            open.push_back((face, edges));
        }
        while let Some((cell, edges)) = open.pop_front() {
            if edges.len() <= EDGES_PER_LEAF || cell.level() >= LEVEL_MAX || budget == 0 {
                leaves.push(Leaf { id: cell.id, edges, probe: None });
                continue;
            }
            for child in cell.children() {
                let own = within(&child, &edges);
                budget = budget.saturating_sub(own.len());
                open.push_back((child, own));
            }
        }
        leaves.sort_by_key(|leaf| leaf.id);
        EdgeIndex { leaves }
    }

    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    pub fn leaves_mut(&mut self) -> &mut [Leaf] {
        &mut self.leaves
    }

    /// The leaf around a point.
    pub fn leaf(&self, p: Vector) -> Option<&Leaf> {
        self.leaf_of(leaf(p))
    }

    fn leaf_of(&self, id: CellID) -> Option<&Leaf> {
        self.leaves.get(self.leaves.partition_point(|own| own.id.range_max() < id))
    }

    /// Returns true if an edge is in the cell.
    pub fn any_in(&self, cell: &Cell, mut intersects: impl FnMut(usize) -> bool) -> bool {
        let within = self.leaves_in(cell.id, &self.leaves);
        if within.is_empty() {
            let around = self.leaf_of(cell.id);
            return around.is_some_and(|leaf| leaf.edges.iter().any(|at| intersects(*at as usize)));
        }
        within.iter().any(|leaf| !leaf.edges.is_empty())
    }

    /// Returns true if `accepts` is true for an edge in a leaf that the arc passes.
    pub fn any_near(&self, arc: &Arc, accepts: &mut dyn FnMut(usize) -> bool) -> bool {
        Cell::faces().any(|face| self.search(&face, &self.leaves, arc, accepts))
    }

    /// Requires `leaves` to hold all leaves inside the cell.
    fn search(&self, cell: &Cell, leaves: &[Leaf], arc: &Arc, accepts: &mut dyn FnMut(usize) -> bool) -> bool {
        if !cell.intersects(arc) {
            return false;
        }
        match self.leaves_in(cell.id, leaves) {
            [only] if only.id == cell.id => only.edges.iter().any(|at| accepts(*at as usize)),
            own => cell.children().any(|child| self.search(&child, own, arc, accepts)),
        }
    }

    fn leaves_in<'l>(&self, id: CellID, leaves: &'l [Leaf]) -> &'l [Leaf] {
        let (low, high) = (id.range_min(), id.range_max());
        let first = leaves.partition_point(|leaf| leaf.id < low);
        let end = leaves.partition_point(|leaf| leaf.id <= high);
        leaves.get(first..end).unwrap_or_default()
    }
}
