//! The LMDB engine: a memory-mapped B+tree with one writer. In Arbor it stands in for `mmapv1`.
//!
//! - [`engine`]: the trait, the writer, checkpoints
//! - [`keys`]: where rows stand in LMDB's one database; long keys; page filling
//! - [`records`]: the adapter's own rows
//! - [`edit`]: a write transaction with what it changes in memory
//! - [`rows`], [`cursor`], [`snapshot`], [`readers`], [`positions`], [`estimate`]: reading
//! - [`bulk`], [`sweep`]: filling and deleting trees beside the batches
//! - [`checkpoint`], [`folder`]: what survives a crash
//! - [`raw`]: the calls into LMDB

mod bulk;
mod checkpoint;
mod cursor;
mod edit;
mod engine;
mod estimate;
mod folder;
mod keys;
mod options;
mod positions;
mod raw;
mod readers;
mod records;
mod rows;
mod snapshot;
mod sweep;

pub use engine::LmdbEngine;
pub use options::LmdbOptions;
