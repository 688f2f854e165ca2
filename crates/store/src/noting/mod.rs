//! Notes of changes for the readers of the history, when the history is kept.
//!
//! | file | holds |
//! |---|---|
//! | `documents.rs` | changes of documents |
//! | `commands.rs` | changes of the catalogue, as the commands in MongoDB's oplog |

pub mod commands;
mod documents;

use arbor_txn::Transaction;

pub use documents::{Emit, about_update, delete, put};

/// A member's own collections: their changes are not shown to other members or clients.
const OWN: &str = "local";

fn is_noted(txn: &Transaction, db: &str) -> bool {
    txn.keeps_history() && db != OWN
}
