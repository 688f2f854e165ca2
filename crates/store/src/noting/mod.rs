//! Telling the readers of the history what happens, when there may be such readers.
//!
//! | file | holds |
//! |---|---|
//! | `documents.rs` | changes of documents |
//! | `commands.rs` | changes of the catalogue, as the commands in MongoDB's oplog |

pub mod commands;
mod documents;

use arbor_txn::Transaction;

pub use documents::{about_update, delete, put};

/// A member's own collections: no other member and no client is told of them.
const OWN: &str = "local";

fn is_noted(txn: &Transaction, db: &str) -> bool {
    txn.keeps_history() && db != OWN
}
