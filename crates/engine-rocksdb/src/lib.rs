//! RocksDB behind the engine trait: a log-structured merge tree.
//!
//! The real library: the one that the system has (RocksDB 7.8 in Debian 12), which is loaded when the engine is first opened, or, with
//! the feature `rocksdb-vendored`, the newest, built from source.
//!
//! - `engine`: the trait
//! - `core`: the state that the parts share, the one writer
//! - `records`: layout of rows and of the adapter's own records in RocksDB's one column family
//! - `edit`: a group of batches becomes one write
//! - `published`: which state a snapshot shows, and which snapshots are held
//! - `snapshot`, `cursor`, `estimate`: reading
//! - `bulk`: filling a tree from sorted files
//! - `checkpoint`: what survives a crash, and the log's barrier
//! - `sweep`, `span`, `background`, `signals`: the space of dropped trees and deleted ranges, and the threads that give it back
//! - `compact`: rewriting a tree on demand
//! - `room`: how writers are slowed
//! - `options`, `option_string`, `parameters`: what the user may choose, at start and later
//! - `statistics`: sizes and RocksDB's properties
//! - `directory`: whose directory it is
//! - `raw`: the calls into RocksDB, and all unsafe code
//!
//! Consequences of RocksDB and of the design:
//!
//! - Writes read nothing: a put, a delete and a range delete go in blindly, an update message becomes an operand of
//!   RocksDB's merge operator. So counts are estimates (the exact ones of collections are the ledger's, above the engine).
//! - Compression is a choice of the engine, not of the tree: all trees share one column family.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod background;
mod bulk;
mod checkpoint;
mod compact;
mod core;
mod cursor;
mod directory;
mod edit;
mod engine;
mod estimate;
mod option_string;
mod options;
mod parameters;
mod published;
#[allow(unsafe_code, reason = "the only calls of RocksDB's C interface")]
mod raw;
mod records;
mod room;
mod signals;
mod snapshot;
mod span;
mod statistics;
mod sweep;

pub use engine::RocksEngine;
pub use options::{COMPRESSIONS, RocksOptions};
pub use raw::{available, library};
