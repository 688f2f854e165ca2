//! The calls into LMDB, wrapped so that the rest of the crate is safe Rust.
//!
//! Rules that the wrappers rely on:
//!
//! - R1: the environment is opened with `MDB_NOTLS`: a read transaction may move between threads, and a reset one keeps
//!   its reader slot, so that renewing it takes no mutex.
//! - R2: a transaction ends before its environment closes (read transactions hold the `Arc`, write transactions borrow).
//! - R3: bytes read through a transaction live in the map until the transaction ends, or, in a write transaction, until
//!   its next change. Both are borrows here.
//! - R4: a cursor closes before its transaction ends (it borrows the transaction).
//! - R5: `mdb_get` and cursors of a read transaction only read it: it keeps no list of cursors (`mt_cursors` is null), has no
//!   dirty pages, and the two databases used here are never stale. Only a damaged file makes LMDB set the transaction's
//!   error bit, and every thread sets the same one. LMDB asks for one user at a time because of databases with names,
//!   which are opened in the transaction.
//!
//! There is one database, LMDB's main one; its default order is that of `memcmp` with the shorter key first.

mod cursor;
mod env;
mod error;
mod pages;
mod txn;

pub(crate) use cursor::{Cursor, Entry, Move};
pub(crate) use env::{Env, EnvOptions};
pub(crate) use pages::{Page, Pages};
pub(crate) use txn::{ReadTxn, Txn, WriteTxn};

/// Handle of LMDB's list of free pages, readable like a database.
const FREE_DBI: lmdb_master_sys::MDB_dbi = 0;
/// Handle of LMDB's main database.
const MAIN_DBI: lmdb_master_sys::MDB_dbi = 1;

/// Returns the name and version of the library.
pub fn library() -> String {
    use lmdb_master_sys::{MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH};
    format!("LMDB {MDB_VERSION_MAJOR}.{MDB_VERSION_MINOR}.{MDB_VERSION_PATCH}")
}

fn to_val(bytes: &[u8]) -> lmdb_master_sys::MDB_val {
    lmdb_master_sys::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr() as *mut _ }
}
