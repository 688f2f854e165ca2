//! Updates of documents that are not read: the statement's operators become an update message, which the engine applies when
//! the document is read or written again.
//!
//! M1: what a message makes of a document depends on both alone, so all members of a set, and every replay of the log, make
//! the same of it. M2: it changes no key of an index. M3: of a document that it cannot be applied to nothing changes, and
//! where there is none none comes into being.
//!
//! A message is a version (1 byte) and the document of the operators as the client sent it.

use std::sync::atomic::{AtomicU64, Ordering};

use arbor_base::TreeId;
use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_engine::UpdateFunction;
use arbor_lang::update::{Touched, Update};
use arbor_lang::{Context, stop};
use arbor_oplog::{Change, Kind};
use arbor_txn::{Durability, Transaction};

use crate::collection::{bytes_counter, unread_counter};
use crate::{Collection, Index, Namespace, Report, Result, Store, noting};

const VERSION: u8 = 1;

/// The meaning of update messages, for engines and the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpdateMessages;

/// Times that a message was no update of the document that was there.
static FAILED: AtomicU64 = AtomicU64::new(0);

impl UpdateMessages {
    /// Returns how often a message could not be applied since the start. One that is applied several times, by several readers
    /// for instance, counts as often.
    pub fn failed() -> u64 {
        FAILED.load(Ordering::Relaxed)
    }
}

impl UpdateFunction for UpdateMessages {
    fn apply(&self, _key: &[u8], row: Option<&[u8]>, message: &[u8]) -> Option<Vec<u8>> {
        let row = row?;
        let (version, operators) = message.split_first().expect("M1: a message has a version");
        assert!(*version == VERSION, "the update message is of a later release");
        // A reader's time limit must not change what it reads.
        let new = stop::stoppable(
            || Ok(()),
            || {
                let update = Update::parse(ValueRef::Document(Doc::trusted(operators)), &[], &Context::new(0))?;
                update.apply(Doc::trusted(row), None)
            },
        );
        match new {
            Ok(Some(new)) => Some(new.into_bytes()),
            Ok(None) => Some(row.to_vec()),
            Err(_) => {
                FAILED.fetch_add(1, Ordering::Relaxed);
                Some(row.to_vec())
            }
        }
    }
}

/// Changes the document with this `_id`, if there is one, without reading it. `update` is what `operators` were parsed into.
/// Returns false, and does nothing, where that is not possible or not allowed.
pub fn update_unread(
    txn: &mut Transaction,
    collection: &Collection,
    id: ValueRef<'_>,
    operators: Doc<'_>,
    update: &Update,
) -> Result<bool> {
    if !update.is_self_contained() || !collection.takes_unread(&update.touched_paths()) {
        return Ok(false);
    }
    let delta = update.whole_fields().map(|fields| delta_of(&fields));
    let is_noted = noting::is_noted(txn, &collection.namespace);
    if is_noted && delta.is_none() {
        return Ok(false);
    }
    let id_key = collection.id_key(id);
    let tree = collection.tree_of(&id_key);
    txn.claim(tree, &id_key)?;
    let mut message = Vec::with_capacity(1 + operators.as_bytes().len());
    message.push(VERSION);
    message.extend_from_slice(operators.as_bytes());
    if !txn.update(tree, &*id_key, message) {
        return Ok(false);
    }
    if let Some(delta) = delta.filter(|_| is_noted) {
        let key = DocBuf::new().with("_id", id);
        let kind = Kind::UnreadUpdate { key: key.as_doc(), delta: delta.as_doc() };
        noting::note(txn, collection, tree, Change { statement: txn.statement(), ..Change::of(kind) });
    }
    txn.add_counter(unread_counter(tree), 1);
    Ok(true)
}

/// Makes the delta for the history: fields are inserted (where they are already, moved to the end), since they may be missing.
fn delta_of(fields: &[(&str, Option<ValueRef<'_>>)]) -> DocBuf {
    let set: DocBuf = fields.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let removed: DocBuf =
        fields.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| (*name, ValueRef::Bool(false))).collect();
    let parts = [("d", removed), ("i", set)];
    parts.iter().filter(|(_, part)| !part.as_doc().is_empty()).map(|(name, part)| (*name, part)).collect()
}

impl Collection {
    /// Returns true if nothing but the document depends on these fields. The history's readers may want documents as they were
    /// before, capped collections bound their size, and values under another collation compare otherwise.
    fn takes_unread(&self, touched: &Touched) -> bool {
        self.order.is_none()
            && self.collation.is_simple()
            && !self.keeps_pre_images()
            && self.shard_key.load().is_none()
            && !self.indexes.iter().any(|index| index.may_change(touched))
    }
}

impl Index {
    /// Returns false if no change of these fields changes an entry.
    fn may_change(&self, touched: &Touched) -> bool {
        match self.generator.sources(&self.key_pattern).filter(|_| !self.clustering && self.partial.is_none()) {
            None => true,
            Some(sources) => sources.into_iter().any(|source| touched.may_change(source)),
        }
    }
}

/// A finding of [`Store::validate`] about the size of a tree of records with unread updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeFound {
    pub tree: TreeId,
    /// Number of unread updates of which the counter of bytes knows nothing.
    pub updates: i64,
    /// Bytes that the counter lacks.
    pub difference: i64,
}

impl Store {
    /// Corrects the counted size of a collection's documents, of which unread updates have changed what is not known, by what
    /// [`Store::validate`] has found. Returns true if the collection had any.
    pub fn correct_size(&self, namespace: &Namespace, report: &Report) -> Result<bool> {
        let Some(held) = self.hold(namespace).filter(|_| !report.sizes.is_empty()) else { return Ok(false) };
        let mut txn = self.transactions.begin()?;
        // one of another tree was found before the collection moved, or its partition was dropped
        let is_own = |found: &&SizeFound| held.record_trees().any(|tree| tree == found.tree);
        let own: Vec<&SizeFound> = report.sizes.iter().filter(is_own).collect();
        if own.is_empty() {
            return Ok(false);
        }
        for SizeFound { tree, updates, difference } in own.into_iter().copied() {
            txn.add_counter(bytes_counter(tree), difference);
            txn.add_counter(unread_counter(tree), -updates);
        }
        txn.commit(Durability::Applied)?;
        Ok(true)
    }
}
