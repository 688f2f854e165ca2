//! Changing documents inside a transaction: the record, its index entries and the counters.

use arbor_bson::Doc;
use arbor_txn::Transaction;

use crate::{Collection, Result};

/// Adds a document, which has an `_id`. Nothing is written on an error.
#[allow(unused_variables)]
pub fn insert(txn: &mut Transaction, collection: &Collection, doc: Doc<'_>) -> Result<()> {
    todo!()
}

/// Replaces `old` by `new`, which has the same `_id`. Only indexes whose keys change are touched. Nothing is written on
/// an error.
#[allow(unused_variables)]
pub fn update(txn: &mut Transaction, collection: &Collection, old: Doc<'_>, new: Doc<'_>) -> Result<()> {
    todo!()
}

/// Removes a document. Nothing is written on an error.
#[allow(unused_variables)]
pub fn delete(txn: &mut Transaction, collection: &Collection, old: Doc<'_>) -> Result<()> {
    todo!()
}
