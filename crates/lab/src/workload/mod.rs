//! Workloads: operations and the order and distribution they come in. Nothing here touches a socket, so
//! the same workload runs against every target and is tested by looking at what it produces.
//!
//! | file | what |
//! |---|---|
//! | `build` | a workload by name and settings |
//! | `kind`, `operation`, `collection` | the vocabulary: names that are measured, families of operations, collections |
//! | `random`, `zipf` | numbers |
//! | `row`, `statement`, `tables` | sysbench's tables: their row, the statements about them, their load |
//! | `linkbench` | founding text 000 |
//! | `pointquery`, `sysbench`, `percona` | founding texts 001 and 002 |
//! | `sharded` | founding text 003 |
//! | `ycsb` | founding text 004 |
//! | `iibench` | insertion under indexes |
//! | `own` | documents and statements of a user's own file |

mod build;
mod collection;
pub mod iibench;
mod kind;
pub mod linkbench;
mod operation;
pub mod own;
pub mod percona;
pub mod pointquery;
mod random;
mod row;
pub mod sharded;
mod statement;
pub mod sysbench;
mod tables;
pub mod ycsb;
mod zipf;

use serde_json::Value;

pub use build::{NAMES, build};
pub use collection::{Collection, Found, Index, Sharding};
pub use kind::Kind;
pub use operation::{Answer, Operation};
pub use percona::PerconaStatement;
pub use random::Random;
pub use row::{C_BYTES, PAD_BYTES, Row, Rows, fill_groups};
pub use statement::{Columns, Range, Statement};
pub use tables::{Shape, Tables};
pub(crate) use zipf::ExactZipf;

/// Faithfulness to the originals (spec/workloads.md, "Two modes everywhere").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the original did it, including its defects.
    Compat,
    /// As its author intended it.
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

/// One experiment's stream of work against one system. State that continues from step to step (the next key to insert) is kept
/// inside, so every system gets a workload of its own.
pub trait Workload: Send + Sync {
    /// The kind whose rate is the headline: a query, a whole transaction, any operation.
    fn unit(&self) -> Kind;

    /// Returns the rows that one unit counts for: those of a batch where rows are the headline. Rate limits are in rows.
    fn unit_rows(&self) -> u64 {
        1
    }

    /// The kinds that occur, in the order tables show them.
    fn kinds(&self) -> &'static [Kind];

    /// Every setting as it is in force, for the manifest; [`build`] takes them back.
    fn settings(&self) -> Value;

    /// The database whose size is the workload's.
    fn database(&self) -> &'static str;

    /// Returns the collections that are made before the load.
    fn collections(&self) -> Vec<Collection>;

    /// Returns the load, as concurrent streams, at most `threads` (a stream of nodes in addition to those of links may
    /// be one more); each ends with [`Unit::Finished`]. The rows of their answers are the documents loaded.
    fn loaders(&self, threads: usize) -> Vec<Box<dyn Client>>;

    /// Receives, before the steps, what the collections hold, in the order of [`Workload::collections`].
    fn resume(&self, _found: &[Found]) {}

    /// Returns true if clients share nothing in memory, so that they may run on several hosts.
    fn is_divisible(&self) -> bool {
        false
    }

    /// Returns true if each unit is one request, which does not depend on earlier replies.
    fn is_of_requests(&self) -> bool {
        false
    }

    /// Client threads of a step with `clients`: more where some of them only watch (iiBench's queries).
    fn threads(&self, clients: usize) -> usize {
        clients
    }

    /// Returns true if a rate limit holds this client back; false for one that only watches.
    fn is_scheduled(&self, _place: Place) -> bool {
        true
    }

    /// The stream of one client; equal seeds give equal streams, as far as clients do not share a counter.
    fn client(&self, place: Place, seed: u64) -> Box<dyn Client>;
}

/// Which thread of a step a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the thread, from 0.
    pub number: usize,
    /// Number of all threads, [`Workload::threads`].
    pub of: usize,
}

/// Outcome of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Everything was executed. The time of the whole is recorded under these kinds; none when the one operation is it.
    Complete(&'static [Kind]),
    /// An operation failed; what is left of a transaction after an error is not tried, as in the originals.
    Abandoned,
    /// There was nothing left to do; the stream is at its end.
    Finished,
}

/// Callback that executes a stream's operations; `None` when the operation failed.
pub type Execute<'a> = dyn FnMut(&Operation<'_>) -> Option<Answer> + 'a;

/// One client's stream.
pub trait Client: Send {
    /// Produces the operations of one unit in order and hands each to `execute`.
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit;
}
