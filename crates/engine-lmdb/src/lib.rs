//! The LMDB engine: a memory-mapped B+tree with one writer. In Arbor it takes the place of `mmapv1`.
//!
//! - [`engine`]: the trait
//! - [`core`](mod@core), [`alarm`]: the writer and checkpoints; waking the background thread
//! - [`keys`]: mapping of rows to keys of LMDB's one database; long keys; page filling
//! - [`records`]: the adapter's own rows
//! - [`edit`]: a write transaction with what it changes in memory
//! - [`rows`], [`cursor`], [`snapshot`], [`readers`], [`positions`], [`estimate`]: reading
//! - [`bulk`], [`sweep`]: filling and deleting trees concurrently with the batches
//! - [`verify`]: damage that would end the process is found first
//! - [`checkpoint`], [`directory`], [`files`]: what survives a crash
//! - [`raw`]: the calls into LMDB
//!
//! Guarantees that LMDB does not give, and that nothing here adds:
//!
//! - Pages have no checksums. Most damage is found as a page of the wrong kind ([`Corrupt`](arbor_engine::Error)), in the
//!   first 65,536 pages before LMDB sees it; some is not. A read error of the device ends the process (SIGBUS), as with every memory-mapped file.
//! - The file does not shrink; what dropped trees leave is used again.
//! - Freed pages can be used again after the next checkpoint and once no older snapshot is held.
//! - If the device fails while LMDB writes its meta page, LMDB begins no transaction any more until the engine is opened
//!   again: writes are refused, reads see the state before that write ([`readers`]).

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod alarm;
mod bulk;
mod checkpoint;
mod core;
mod cursor;
mod directory;
mod edit;
mod engine;
mod estimate;
mod files;
mod keys;
mod options;
mod positions;
#[allow(unsafe_code, reason = "the only calls of LMDB's C interface")]
mod raw;
mod readers;
mod records;
mod rows;
mod snapshot;
mod sweep;
mod verify;

pub use engine::LmdbEngine;
pub use options::{LmdbOptions, READERS_MAX};
pub use raw::library;
pub use readers::RESTING_ALL_MAX;
pub use verify::verify;
