//! Changes of documents.

use arbor_base::{TreeId, paranoid};
use arbor_bson::{Doc, DocBuf};
use arbor_oplog::{Change, Kind, Place, delta, document_key};
use arbor_txn::Transaction;

use super::is_noted;
use crate::Collection;
use crate::write::UpdateKind;

fn describe(txn: &mut Transaction, collection: &Collection, tree: TreeId) {
    txn.describe(tree, || {
        let shard_key = collection.shard_key.load();
        let shard_key = shard_key.as_deref().map(DocBuf::as_doc);
        Place { namespace: collection.namespace.as_str(), uuid: Some(collection.uuid), shard_key }.encode()
    });
}

/// Puts a record, and notes the change that `about` says.
pub(crate) fn put(
    txn: &mut Transaction,
    collection: &Collection,
    id_key: &[u8],
    doc: Doc<'_>,
    about: impl FnOnce(Option<i32>) -> Vec<u8>,
) {
    let tree = collection.tree_of(id_key);
    if is_noted(txn, &collection.namespace) {
        describe(txn, collection, tree);
        let about = about(txn.statement());
        txn.put_noted(tree, id_key, doc.as_bytes(), about);
    } else {
        txn.put(tree, id_key, doc.as_bytes());
    }
}

/// Notes a change of a document whose row is written otherwise.
pub(crate) fn note(txn: &mut Transaction, collection: &Collection, tree: TreeId, change: Change<'_>) {
    describe(txn, collection, tree);
    txn.note(tree, change.encode());
}

/// Encodes an update as MongoDB does: one by operators as the paths that they wrote, one by a pipeline as a delta where
/// that is shorter than the document.
pub(crate) fn about_update(
    collection: &Collection,
    old: Doc<'_>,
    new: Doc<'_>,
    kind: UpdateKind<'_>,
    statement: Option<i32>,
) -> Vec<u8> {
    let difference = match kind {
        UpdateKind::Paths(paths) => Some(delta::of_paths(old, new, paths)),
        UpdateKind::Update => delta::diff(old, new),
        UpdateKind::Replacement => None,
    };
    if let Some(difference) = &difference {
        paranoid!(
            delta::apply(old, difference.as_doc()).is_ok_and(|applied| applied.as_bytes() == new.as_bytes()),
            "the delta {difference:?} does not turn {old:?} into {new:?}"
        );
    }
    let kind = difference.as_ref().map_or(Kind::Replace, |difference| Kind::Update(difference.as_doc()));
    Change { kind, statement, before: Some(old).filter(|_| collection.keeps_pre_images()) }.encode()
}

/// The event, if any, that the history shows for a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emit {
    Event,
    /// The server itself makes room in a capped collection.
    Nothing,
}

/// Deletes a record, with a note if `emit` asks for one.
pub(crate) fn delete(txn: &mut Transaction, collection: &Collection, id_key: Vec<u8>, old: Doc<'_>, emit: Emit) {
    let tree = collection.tree_of(&id_key);
    txn.delete(tree, id_key);
    if emit == Emit::Event && is_noted(txn, &collection.namespace) {
        describe(txn, collection, tree);
        let shard_key = collection.shard_key.load();
        let key = document_key(shard_key.as_deref().map(DocBuf::as_doc), old);
        let before = Some(old).filter(|_| collection.keeps_pre_images());
        let change = Change { kind: Kind::Delete(key.as_doc()), statement: txn.statement(), before };
        txn.note(tree, change.encode());
    }
}
