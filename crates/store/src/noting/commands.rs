//! Changes of the catalogue, as MongoDB's oplog has them: commands on `db.$cmd`, with the UUID of the collection that they
//! are about. Views are documents of `db.system.views`.

use std::sync::Arc;

use arbor_base::TreeId;
use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef, identical};
use arbor_oplog::{Change, Kind, Place};
use arbor_txn::Transaction;
use uuid::Uuid;

use super::{PROFILE, is_noted_in};
use crate::catalogue::{self, CATALOGUE};
use crate::{Collection, Index, Namespace, ViewDefinition};

/// Tree id bit of the place of a command about a collection: the id without it is the place of the collection's
/// documents. No tree has an id with this bit.
const COMMANDS: u64 = 1 << 63;

const UUID_SUBTYPE: u8 = 4;

fn binary(uuid: &Uuid) -> ValueRef<'_> {
    ValueRef::Binary { subtype: UUID_SUBTYPE, bytes: uuid.as_bytes() }
}

fn note(txn: &mut Transaction, db: &str, about: (TreeId, Option<Uuid>), command: &DocBuf, before: Option<&DocBuf>) {
    if !is_noted_in(txn, db) {
        return;
    }
    let (tree, uuid) = about;
    let place = TreeId(tree.0 | COMMANDS);
    txn.describe(place, || Place { namespace: &format!("{db}.$cmd"), uuid, shard_key: None }.encode());
    let kind = Kind::Command(command.as_doc());
    txn.note(place, Change { kind, statement: None, before: before.map(DocBuf::as_doc) }.encode());
}

fn note_of(txn: &mut Transaction, collection: &Collection, command: &DocBuf, before: Option<&DocBuf>) {
    if collection.namespace.collection() == PROFILE {
        return;
    }
    note(txn, collection.namespace.db(), (collection.tree, Some(collection.uuid)), command, before);
}

/// `{name: "collection"}`.
fn command(name: &str, collection: &Collection) -> DocBuf {
    DocBuf::new().with(name, collection.namespace.collection())
}

fn with_all(mut doc: DocBuf, fields: Doc<'_>) -> DocBuf {
    for (name, value) in fields {
        doc.append(name, value);
    }
    doc
}

pub(crate) fn created(txn: &mut Transaction, collection: &Collection) {
    let mut says = with_all(command("create", collection), collection.options.as_doc());
    if collection.clustered_index().is_none() {
        says.append("idIndex", &collection.id_index_spec());
    }
    note_of(txn, collection, &says, None);
}

/// Requires the number of its documents.
pub(crate) fn dropped(txn: &mut Transaction, collection: &Collection, records: u64) {
    let before = DocBuf::new().with("numRecords", records as i64);
    note_of(txn, collection, &command("drop", collection), Some(&before));
}

pub(crate) fn database_dropped(txn: &mut Transaction, db: &str) {
    note(txn, db, (CATALOGUE, None), &DocBuf::new().with("dropDatabase", 1i32), None);
}

/// `target`: what had the name, with the number of its documents.
pub(crate) fn renamed(txn: &mut Transaction, from: &Collection, to: &Namespace, target: Option<(&Collection, u64)>) {
    let says = DocBuf::new().with("renameCollection", from.namespace.as_str()).with("to", to.as_str());
    let mut says = says.with("stayTemp", false);
    if let Some((target, _)) = target {
        says.append("dropTarget", binary(&target.uuid));
    }
    let before = target.map(|(_, records)| DocBuf::new().with("numRecords", records as i64));
    note_of(txn, from, &says, before.as_ref());
}

/// Notes new indexes of an empty collection.
pub(crate) fn indexes_created(txn: &mut Transaction, collection: &Collection, indexes: &[Arc<Index>]) {
    for index in indexes {
        let says = with_all(command("createIndexes", collection), index.spec.doc.as_doc());
        note_of(txn, collection, &says, None);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum BuildStep<'s> {
    Started,
    Committed,
    /// Aborted for this reason.
    Aborted(&'s str),
}

pub(crate) fn build(txn: &mut Transaction, collection: &Collection, uuid: Uuid, specs: &[DocBuf], step: BuildStep<'_>) {
    let name = match step {
        BuildStep::Started => "startIndexBuild",
        BuildStep::Committed => "commitIndexBuild",
        BuildStep::Aborted(_) => "abortIndexBuild",
    };
    let specs: ArrayBuf = specs.iter().collect();
    let mut says = command(name, collection).with("indexBuildUUID", binary(&uuid)).with("indexes", &specs);
    if let BuildStep::Aborted(why) = step {
        says.append("cause", &DocBuf::new().with("ok", false).with("errmsg", why));
    }
    note_of(txn, collection, &says, None);
}

pub(crate) fn indexes_dropped(txn: &mut Transaction, collection: &Collection, indexes: &[Arc<Index>]) {
    for index in indexes {
        let says = command("dropIndexes", collection).with("index", index.name.as_str());
        note_of(txn, collection, &says, Some(&index.spec.doc));
    }
}

/// `collectionOptions_old`.
fn old_options(collection: &Collection) -> DocBuf {
    let options = with_all(DocBuf::new().with("uuid", binary(&collection.uuid)), collection.options.as_doc());
    DocBuf::new().with("collectionOptions_old", &options)
}

/// Notes the options that changed.
pub(crate) fn options_changed(txn: &mut Transaction, old: &Collection, options: &DocBuf) {
    let mut says = command("collMod", old);
    for (name, value) in options.as_doc() {
        if !old.options.get(name).is_some_and(|before| identical(before, value)) {
            says.append(name, value);
        }
    }
    for (name, _) in old.options.as_doc().iter().filter(|(name, _)| options.get(name).is_none()) {
        match name {
            "changeStreamPreAndPostImages" => drop(says.append(name, &DocBuf::new().with("enabled", false))),
            "validator" => drop(says.append(name, &DocBuf::new())),
            "expireAfterSeconds" => drop(says.append(name, "off")),
            _ => {}
        }
    }
    note_of(txn, old, &says, Some(&old_options(old)));
}

/// Settings that `collMod` changes on an index.
const CHANGEABLE: &[&str] = &["expireAfterSeconds", "hidden", "prepareUnique", "unique"];

pub(crate) fn index_changed(txn: &mut Transaction, collection: &Collection, old: &Index, new: &Index) {
    let (mut changed, mut before) = (DocBuf::new().with("name", new.name.as_str()), DocBuf::new());
    for name in CHANGEABLE {
        // a flag that is not there is not set
        let [was, is] = [old, new].map(|index| index.spec.doc.get(name));
        match (was, is) {
            (Some(was), Some(is)) if identical(was, is) => {}
            (None, None) => {}
            (was, is) => {
                changed.append(name, is.unwrap_or(ValueRef::Bool(false)));
                if was.is_some() || *name != "expireAfterSeconds" {
                    before.append(name, was.unwrap_or(ValueRef::Bool(false)));
                }
            }
        }
    }
    if before.as_doc().is_empty() && changed.as_doc().iter().nth(1).is_none() {
        return;
    }
    let says = command("collMod", collection).with("index", &changed);
    let before = old_options(collection).with("indexOptions_old", &before);
    note_of(txn, collection, &says, Some(&before));
}

pub(crate) fn converted_to_capped(txn: &mut Transaction, old: &Collection, bytes_max: i64) {
    note_of(txn, old, &command("convertToCapped", old).with("size", bytes_max), None);
}

/// Notes that a collection has partitions now, or others.
pub(crate) fn partitions_changed(txn: &mut Transaction, collection: &Collection, says: &DocBuf) {
    note_of(txn, collection, says, None);
}

/// Notes that partitions were dropped: `range` is what they had, with the number of its records.
pub(crate) fn partitions_dropped(
    txn: &mut Transaction,
    collection: &Collection,
    says: &DocBuf,
    range: &DocBuf,
    records: u64,
) {
    let before = DocBuf::new().with("numRecords", records as i64).with("range", range);
    note_of(txn, collection, says, Some(&before));
}

// ---- views

fn describe_views(txn: &mut Transaction, db: &str) {
    txn.describe(CATALOGUE, || {
        Place { namespace: &format!("{db}.system.views"), uuid: None, shard_key: None }.encode()
    });
}

/// Puts the row of a view, which is new or was another one.
pub(crate) fn put_view(txn: &mut Transaction, view: &ViewDefinition, is_new: bool) {
    let (key, db) = (catalogue::view_key(&view.namespace), view.namespace.db());
    let row = view.document().into_bytes();
    if is_noted_in(txn, db) {
        describe_views(txn, db);
        let kind = if is_new { Kind::Insert } else { Kind::Replace };
        txn.put_noted(CATALOGUE, key, row, Change::of(kind).encode());
    } else {
        txn.put(CATALOGUE, key, row);
    }
}

/// Deletes the row of a view.
pub(crate) fn delete_view(txn: &mut Transaction, namespace: &Namespace) {
    txn.delete(CATALOGUE, catalogue::view_key(namespace));
    if is_noted_in(txn, namespace.db()) {
        describe_views(txn, namespace.db());
        let key = DocBuf::new().with("_id", namespace.as_str());
        txn.note(CATALOGUE, Change::of(Kind::Delete(key.as_doc())).encode());
    }
}
