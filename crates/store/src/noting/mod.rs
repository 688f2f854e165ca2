//! Notes of changes for the readers of the history, when the history is kept.
//!
//! | file | holds |
//! |---|---|
//! | `documents.rs` | changes of documents |
//! | `commands.rs` | changes of the catalogue, as the commands in MongoDB's oplog |

pub(crate) mod commands;
mod documents;

use arbor_txn::Transaction;

use crate::Namespace;

pub(crate) use documents::{Emit, about_update, delete, note, put};

/// A member's own collections: their changes are not shown to other members or clients.
const OWN: &str = "local";
/// The profile of a database, which is this member's own.
const PROFILE: &str = "system.profile";

pub(crate) fn is_noted(txn: &Transaction, namespace: &Namespace) -> bool {
    is_noted_in(txn, namespace.db()) && namespace.collection() != PROFILE
}

fn is_noted_in(txn: &Transaction, db: &str) -> bool {
    txn.keeps_history() && db != OWN
}
