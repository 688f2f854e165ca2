//! What is done to a server: operations and the order and distribution they come in. Nothing here touches a socket, so
//! the same workload runs against every target and is tested by looking at what it produces.

mod operation;
pub mod pointquery;
mod random;
mod row;
pub mod sysbench;

pub use operation::{Columns, Kind, Operation, Range};
pub use random::Random;
pub use row::{C_BYTES, PAD_BYTES, Row, Rows, fill_groups};

/// How faithful to the originals (spec/workloads.md, "Two modes everywhere").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What the original did, its slips included.
    Compat,
    /// What its author meant.
    Fixed,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Compat => "compat",
            Mode::Fixed => "fixed",
        }
    }
}

/// The tables a workload runs on: `sbtest1` .. `sbtestN`, ids `1..=rows` in each.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub tables: u32,
    pub rows: u32,
}

/// One experiment's stream of work.
pub trait Workload: Send + Sync {
    /// The kind whose rate is the headline: a query, or a whole transaction.
    fn unit(&self) -> Kind;

    /// The kinds that occur, in the order tables show them.
    fn kinds(&self) -> &[Kind];

    /// The stream of one client; equal seeds give equal streams.
    fn client(&self, seed: u64) -> Box<dyn Client>;
}

/// One client's stream.
pub trait Client: Send {
    /// Produces the operations of one unit in order and hands each to `execute`, which says whether to go on. False when
    /// the unit was abandoned: what is left of a transaction after an error is not tried, as in the originals.
    fn unit(&mut self, execute: &mut dyn FnMut(&Operation<'_>) -> bool) -> bool;
}
