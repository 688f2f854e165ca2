//! The external sort of index builds and queries, and rows that queries keep on disk.

pub mod sorter;
pub mod spool;
