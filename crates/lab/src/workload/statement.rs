//! The statements of sysbench and point queries.

use super::{Kind, Row};

/// Columns that a point query fetches.
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
pub enum Statement<'a> {
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
    /// One statement with many rows.
    InsertRows {
        table: u32,
        rows: &'a [Row],
    },
}

impl Statement<'_> {
    pub fn table(&self) -> u32 {
        match *self {
            Statement::Point { table, .. }
            | Statement::Range { table, .. }
            | Statement::Sum { table, .. }
            | Statement::Order { table, .. }
            | Statement::Distinct { table, .. }
            | Statement::IndexUpdate { table, .. }
            | Statement::NonIndexUpdate { table, .. }
            | Statement::Delete { table, .. }
            | Statement::Insert { table, .. }
            | Statement::InsertRows { table, .. } => table,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Statement::Point { .. } => Kind::POINT_QUERY,
            Statement::Range { .. } => Kind::RANGE_QUERY,
            Statement::Sum { .. } => Kind::SUM_QUERY,
            Statement::Order { .. } => Kind::ORDER_QUERY,
            Statement::Distinct { .. } => Kind::DISTINCT_QUERY,
            Statement::IndexUpdate { .. } => Kind::INDEX_UPDATE,
            Statement::NonIndexUpdate { .. } => Kind::NON_INDEX_UPDATE,
            Statement::Delete { .. } => Kind::DELETE,
            Statement::Insert { .. } => Kind::INSERT,
            Statement::InsertRows { .. } => Kind::INSERT_BATCH,
        }
    }
}
