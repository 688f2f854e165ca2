//! The operations workloads are made of.

use super::Row;

/// What is measured apart from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Kind {
    Transaction,
    PointQuery,
    RangeQuery,
    SumQuery,
    OrderQuery,
    DistinctQuery,
    IndexUpdate,
    NonIndexUpdate,
    Delete,
    Insert,
    InsertBatch,
}

impl Kind {
    pub const COUNT: usize = Kind::InsertBatch as usize + 1;

    pub fn name(self) -> &'static str {
        match self {
            Kind::Transaction => "transaction",
            Kind::PointQuery => "point_query",
            Kind::RangeQuery => "range_query",
            Kind::SumQuery => "sum_query",
            Kind::OrderQuery => "order_query",
            Kind::DistinctQuery => "distinct_query",
            Kind::IndexUpdate => "index_update",
            Kind::NonIndexUpdate => "non_index_update",
            Kind::Delete => "delete",
            Kind::Insert => "insert",
            Kind::InsertBatch => "insert_batch",
        }
    }
}

/// What a point query fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    All,
    C,
}

/// Ids `from..=to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from: i32,
    pub to: i32,
}

/// One statement against table number `table` (from 1).
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    Point {
        table: u32,
        id: i32,
        columns: Columns,
    },
    Range {
        table: u32,
        ids: Range,
    },
    /// The sum of k; `name` is what the result's field is called.
    Sum {
        table: u32,
        ids: Range,
        name: &'static str,
    },
    /// The range ordered by c.
    Order {
        table: u32,
        ids: Range,
    },
    /// The distinct values of c in the range.
    Distinct {
        table: u32,
        ids: Range,
    },
    /// Adds 1 to k.
    IndexUpdate {
        table: u32,
        id: i32,
    },
    /// Sets c.
    NonIndexUpdate {
        table: u32,
        id: i32,
        c: &'a str,
    },
    Delete {
        table: u32,
        id: i32,
    },
    Insert {
        table: u32,
        row: &'a Row,
    },
}

impl Operation<'_> {
    pub fn table(&self) -> u32 {
        match *self {
            Operation::Point { table, .. }
            | Operation::Range { table, .. }
            | Operation::Sum { table, .. }
            | Operation::Order { table, .. }
            | Operation::Distinct { table, .. }
            | Operation::IndexUpdate { table, .. }
            | Operation::NonIndexUpdate { table, .. }
            | Operation::Delete { table, .. }
            | Operation::Insert { table, .. } => table,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Operation::Point { .. } => Kind::PointQuery,
            Operation::Range { .. } => Kind::RangeQuery,
            Operation::Sum { .. } => Kind::SumQuery,
            Operation::Order { .. } => Kind::OrderQuery,
            Operation::Distinct { .. } => Kind::DistinctQuery,
            Operation::IndexUpdate { .. } => Kind::IndexUpdate,
            Operation::NonIndexUpdate { .. } => Kind::NonIndexUpdate,
            Operation::Delete { .. } => Kind::Delete,
            Operation::Insert { .. } => Kind::Insert,
        }
    }
}
