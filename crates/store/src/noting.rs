//! Telling the readers of the history what happens to documents, when there may be such readers.

use arbor_bson::{Doc, DocBuf};
use arbor_oplog::{Change, Kind, Place, delta};
use arbor_txn::Transaction;

use crate::Collection;
use crate::write::ToldAs;

/// A member's own collections: no other member and no client is told of them.
const OWN: &str = "local";

fn is_noted(txn: &Transaction, collection: &Collection) -> bool {
    txn.keeps_history() && collection.namespace.db() != OWN
}

fn describe(txn: &mut Transaction, collection: &Collection) {
    txn.describe(collection.tree, || {
        Place { namespace: &collection.namespace.to_string(), uuid: Some(collection.uuid) }.encode()
    });
}

/// Puts a record, and notes what `about` says.
pub fn put(
    txn: &mut Transaction,
    collection: &Collection,
    id_key: &[u8],
    doc: Doc<'_>,
    about: impl FnOnce() -> Vec<u8>,
) {
    if is_noted(txn, collection) {
        describe(txn, collection);
        txn.put_noted(collection.tree, id_key, doc.as_bytes(), about());
    } else {
        txn.put(collection.tree, id_key, doc.as_bytes());
    }
}

/// A difference where it is shorter than the document, as MongoDB does it.
pub fn about_update(old: Doc<'_>, new: Doc<'_>, told_as: ToldAs) -> Vec<u8> {
    let difference = match told_as {
        ToldAs::Update => delta::diff(old, new),
        ToldAs::Replacement => None,
    };
    let kind = difference.as_ref().map_or(Kind::Replace, |difference| Kind::Update(difference.as_doc()));
    Change::of(kind).encode()
}

pub fn delete(txn: &mut Transaction, collection: &Collection, id_key: Vec<u8>, old: Doc<'_>) {
    txn.delete(collection.tree, id_key);
    if is_noted(txn, collection) {
        describe(txn, collection);
        let key: DocBuf = old.get("_id").into_iter().map(|id| ("_id", id)).collect();
        txn.note(collection.tree, Change::of(Kind::Delete(key.as_doc())).encode());
    }
}
