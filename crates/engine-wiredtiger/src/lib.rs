//! WiredTiger behind the engine trait: B-trees with versions in memory, checkpoints without stopping other threads.
//!
//! **Licence.** WiredTiger is under the GNU General Public License, version 2 or 3. Nothing of it is in this crate or in a binary
//! with it: the library is loaded when the engine is first opened, from a package that the administrator installs.
//!
//! It is the real WiredTiger 3.2.1, as Debian ships it (libwiredtiger0), through own declarations of what is used (`raw::ffi`).
//!
//! - `engine`: the trait
//! - `core`, `writer`, `reading`: the state that the parts share
//! - `edit`: a group of batches becomes one transaction
//! - `records`: the catalogue: which table holds which tree, and the position
//! - `published`: which state a snapshot shows, and which snapshots are held
//! - `pool`, `snapshot`, `cursor`, `estimate`: reading
//! - `room`: reads that find the cache full
//! - `bulk`: filling a tree
//! - `checkpoint`: what survives a crash, the log's barrier, the stable generation
//! - `pacer`, `pace`: the thread that moves the stable generation on
//! - `sweep`: the tables of dropped trees
//! - `compact`, `statistics`: what they say
//! - `options`, `config_string`: what the user may choose
//! - `probe`: whether options go together
//! - `directory`: whose directory it is
//! - `raw`: the calls into WiredTiger, and all unsafe code
//!
//! Consequences of WiredTiger:
//!
//! - A snapshot is a transaction: WiredTiger keeps every version that it may need, in its cache and, when that is full,
//!   in `WiredTigerLAS.wt`. A snapshot that is held for long during many writes costs cache, then disk, then speed.
//!   When a transaction is rolled back again and again because of them, the cache grows until they are gone: what the log has
//!   must be applied. Past states, which are held only in case that they are requested, and the views of cursors that wait for
//!   their clients are given up long before (`Capabilities::held_snapshot_bytes_max`).
//! - What fills the cache may be pages of calls that wait for room in it. So no call waits longer than a second: reads are made again
//!   (`room.rs`), transactions of the writer too (`edit.rs`), and a cursor keeps no page of a large row (`cursor.rs`).
//! - A block with a wrong checksum ends WiredTiger (it panics, in its word): the call returns the error that names the
//!   file, and every later one that the engine is poisoned, until the process is started again. No damage that the tests
//!   found ends the process or prints anything.
//! - Making a tree syncs WiredTiger's metadata (a few fsyncs); what it makes before a crash that loses the batch is
//!   dropped at open.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod bulk;
mod checkpoint;
mod compact;
mod config_string;
mod core;
mod cursor;
mod directory;
mod edit;
mod engine;
mod estimate;
mod options;
mod pace;
mod pacer;
mod pool;
mod probe;
mod published;
#[allow(unsafe_code, reason = "the only calls of WiredTiger's C interface")]
mod raw;
mod reading;
mod records;
mod room;
mod snapshot;
mod statistics;
mod sweep;
mod writer;

pub use engine::WiredTigerEngine;
pub use options::{COMPRESSORS, WiredTigerOptions};
pub use raw::{available, library};
