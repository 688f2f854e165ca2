//! The calls into RocksDB. All unsafe code of the crate stands in these modules; what they export is safe.
//!
//! Rules that the SAFETY comments refer to:
//!
//! - R1: a handle is made by RocksDB's `create`, owned by one value here, and destroyed once, by its `Drop`.
//! - R2: byte arguments are passed as pointer and length and copied by RocksDB before the call returns, but for the
//!   bounds of an iterator, which [`Rows`] keeps as long as the iterator.
//! - R3: RocksDB's database, snapshots and options may be used from any thread at the same time; batches, iterators and
//!   file writers from one thread at a time, and may move between threads.
//! - R4: snapshots hold the database with an `Arc`, iterators borrow it, so it is closed last.

mod batch;
mod db;
mod error;
mod rows;
mod settings;
mod sorted_file;

pub use batch::WriteBatch;
pub use db::{Db, RawSnapshot};
pub use rows::Rows;
pub use sorted_file::SortedFile;
