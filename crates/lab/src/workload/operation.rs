//! Operations, by family. A session executes the families it knows and refuses the others.

use super::iibench::IibenchOperation;
use super::linkbench::{LinkOperation, Store};
use super::own::OwnOperation;
use super::percona::PerconaStatement;
use super::ycsb::YcsbOperation;
use super::{Kind, Statement};

#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// About sysbench's tables.
    Sysbench(Statement<'a>),
    /// Statements that Percona's sysbench words differently.
    Percona(PerconaStatement<'a>),
    /// sysbench's statements on a sharded collection; their table is the first part of the key.
    Sharded(Statement<'a>),
    /// About LinkBench's graph in the store's schema.
    Link(Store, LinkOperation<'a>),
    /// About YCSB's records.
    Ycsb(YcsbOperation<'a>),
    /// A user's own documents and statements.
    Own(OwnOperation<'a>),
    /// About iiBench's purchases.
    Iibench(IibenchOperation<'a>),
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Read or changed.
    pub rows: u64,
    /// The time of the last link of a list, for LinkBench's history.
    pub last_time: i64,
}

impl Answer {
    pub fn rows(rows: u64) -> Answer {
        Answer { rows, last_time: 0 }
    }
}

impl Operation<'_> {
    pub fn kind(&self) -> Kind {
        match self {
            Operation::Sysbench(statement) | Operation::Sharded(statement) => statement.kind(),
            Operation::Percona(statement) => statement.kind(),
            Operation::Link(_, operation) => operation.kind(),
            Operation::Ycsb(operation) => operation.kind(),
            Operation::Own(operation) => operation.kind(),
            Operation::Iibench(operation) => operation.kind(),
        }
    }
}
