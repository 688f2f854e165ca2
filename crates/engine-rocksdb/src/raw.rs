//! The calls into RocksDB. All unsafe code of the crate is in these modules; what they export is safe.
//!
//! Rules that the SAFETY comments refer to:
//!
//! - R1: a handle is made by RocksDB's `create`, owned by one value here, and destroyed once, by its `Drop`.
//! - R2: byte arguments are passed as pointer and length and copied by RocksDB before the call returns, but for the
//!   bounds of an iterator, which [`Rows`] keeps as long as the iterator.
//! - R3: RocksDB's database, snapshots and options may be used from any thread at the same time; batches, iterators and
//!   file writers from one thread at a time, and may move between threads.
//! - R4: snapshots hold the database with an `Arc`, iterators borrow it, so it is closed last.
//!
//! **Stored values.** The value of a row, then one byte [`ROW`]. A stored value without any byte is no row: that is what
//! an update message leaves that ends a row, since RocksDB's merge operator cannot delete. Such leftovers are passed over
//! by all reads here, and removed by compactions.

mod batch;
mod db;
mod error;
#[cfg(not(feature = "rocksdb-vendored"))]
mod ffi;
mod rows;
mod settings;
mod sorted_file;
mod updates;

#[cfg(feature = "rocksdb-vendored")]
use librocksdb_sys as ffi;

use arbor_engine::Result;

/// Loads the library unless it is loaded. Errors: it is missing or lacks a function.
pub fn available() -> Result<()> {
    #[cfg(not(feature = "rocksdb-vendored"))]
    ffi::loaded()?;
    Ok(())
}

/// Returns the name and version of the library; `None`: it cannot be loaded, or does not say.
pub fn library() -> Option<String> {
    #[cfg(feature = "rocksdb-vendored")]
    return Some("RocksDB, built with this program".to_owned());
    #[cfg(not(feature = "rocksdb-vendored"))]
    ffi::version().map(|version| format!("RocksDB {version}"))
}

pub(crate) use batch::WriteBatch;
pub(crate) use db::{Db, RawSnapshot};
pub(crate) use rows::Rows;
pub(crate) use settings::{c_text, check_option};
pub(crate) use sorted_file::SortedFile;

/// The last byte of the stored value of a row that is there.
const ROW: u8 = 1;

/// The value of a row in what is stored; `None`: there is no row.
fn value_of(stored: &[u8]) -> Option<&[u8]> {
    stored.split_last().map(|(_, value)| value)
}
