//! RocksDB behind the engine trait: a log-structured merge tree.
//!
//! Only with the feature `rocksdb-system`, which links the RocksDB 7.8 that Debian ships; without it this crate is empty.
//!
//! - `engine`: the trait, the one writer
//! - `records`: where rows and the adapter's own records stand in RocksDB's one column family
//! - `edit`: a group of batches becomes one write, with exact counts
//! - `published`: which state a snapshot shows, and which snapshots are held
//! - `snapshot`, `cursor`, `estimate`: reading
//! - `bulk`: filling a tree from sorted files
//! - `checkpoint`: what survives a crash, and the log's barrier
//! - `sweep`: the space of dropped trees; the background thread
//! - `folder`: whose folder it is
//! - `raw`: the calls into RocksDB, and all unsafe code
//!
//! What follows from RocksDB and from the contract:
//!
//! - Counts are exact, so each put and delete looks for the row that it replaces. Bloom filters make that cheap for new
//!   keys; RocksDB's blind writes are not to be had.
//! - Compression is a choice of the engine, not of the tree: all trees share one column family.
//! - Update messages (merge operators) are not used: the trait has none.

#[cfg(feature = "rocksdb-system")]
mod bulk;
#[cfg(feature = "rocksdb-system")]
mod checkpoint;
#[cfg(feature = "rocksdb-system")]
mod cursor;
#[cfg(feature = "rocksdb-system")]
mod edit;
#[cfg(feature = "rocksdb-system")]
mod engine;
#[cfg(feature = "rocksdb-system")]
mod estimate;
#[cfg(feature = "rocksdb-system")]
mod folder;
#[cfg(feature = "rocksdb-system")]
mod options;
#[cfg(feature = "rocksdb-system")]
mod published;
#[cfg(feature = "rocksdb-system")]
mod raw;
#[cfg(feature = "rocksdb-system")]
mod records;
#[cfg(feature = "rocksdb-system")]
mod snapshot;
#[cfg(feature = "rocksdb-system")]
mod sweep;

#[cfg(feature = "rocksdb-system")]
pub use engine::RocksEngine;
#[cfg(feature = "rocksdb-system")]
pub use options::{COMPRESSIONS, RocksOptions};
