//! The external sort of index builds and queries, and rows that queries keep on disk.

pub(crate) mod sorter;
pub(crate) mod spool;
