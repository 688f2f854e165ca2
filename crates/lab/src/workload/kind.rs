//! Kinds of operations that are measured separately. Every workload has names of its own.

/// The name of a sort of operation, or of a unit of several. Two kinds are the same when their names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(&'static str);

impl Kind {
    /// The unit of sysbench and its relatives.
    pub const TRANSACTION: Kind = Kind("transaction");
    /// Any operation of a workload without transactions (LinkBench, YCSB).
    pub const OPERATION: Kind = Kind("operation");
    /// One batch of a load.
    pub const INSERT_BATCH: Kind = Kind("insert_batch");

    pub const POINT_QUERY: Kind = Kind("point_query");
    pub const RANGE_QUERY: Kind = Kind("range_query");
    pub const SUM_QUERY: Kind = Kind("sum_query");
    pub const ORDER_QUERY: Kind = Kind("order_query");
    pub const DISTINCT_QUERY: Kind = Kind("distinct_query");
    pub const INDEX_UPDATE: Kind = Kind("index_update");
    pub const NON_INDEX_UPDATE: Kind = Kind("non_index_update");
    pub const DELETE: Kind = Kind("delete");
    pub const INSERT: Kind = Kind("insert");

    pub const fn new(name: &'static str) -> Kind {
        Kind(name)
    }

    pub fn name(self) -> &'static str {
        self.0
    }
}
