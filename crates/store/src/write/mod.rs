//! Changing documents inside a transaction: the record, its index entries and the counters.
//!
//! Everything that can fail is done before the first write, so that a failed change leaves the transaction as it was.

pub(crate) mod key_generator;
pub(crate) mod unread;

use std::cmp::Ordering;

use arbor_base::{paranoid, work};
use arbor_bson::keystring::{self, Key};
use arbor_bson::{Doc, DocBuf, Value, ValueRef, identical};
use arbor_lang::{Collation, stop};
use arbor_oplog::{Change, Kind};
use arbor_txn::{Transaction, View};

use crate::catalogue::{self, CATALOGUE};
use crate::collection::{bytes_counter, count_counter};
use crate::noting::Emit;
use crate::read::entry::{self, Parts};
use crate::{Collection, Error, Index, IndexCursor, IndexSpec, Result, capped, noting};

/// Adds a document, which has an `_id`. Nothing is written on an error.
pub fn insert(txn: &mut Transaction, collection: &Collection, doc: Doc<'_>) -> Result<()> {
    let id = checked_id(doc)?;
    let id_key = collection.id_key(id);
    stop::ended()?;
    capped::check_fits(collection, doc)?;
    let tree = collection.tree_of(&id_key);
    if txn.get(tree, &id_key)?.is_some() {
        return Err(duplicate_id(collection, id));
    }
    txn.claim(tree, &id_key)?;
    let mut changes = Vec::with_capacity(collection.indexes.len());
    for index in &collection.indexes {
        let keys = index.keys_of(doc)?;
        for key in &keys.keys {
            check_unique(txn, collection, index, key)?;
            claim_unique(txn, index, key)?;
        }
        changes.push((&**index, keys));
    }
    for (index, keys) in &changes {
        note_multikey(txn, index, &keys.multikey)?;
    }
    for (index, keys) in &changes {
        for key in &keys.keys {
            put_entry(txn, index, key, &id_key, doc);
        }
    }
    let about = |statement| Change { statement, ..Change::of(Kind::Insert) }.encode();
    noting::put(txn, collection, id_key.as_slice(), doc, about);
    txn.add_counter(count_counter(tree), 1);
    txn.add_counter(bytes_counter(tree), doc.as_bytes().len() as i64);
    capped::inserted(txn, collection, &id_key)
}

/// The form in which the history shows a changed document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind<'p> {
    /// The values at these dotted paths, see [`arbor_lang::update::Written::Paths`].
    Paths(&'p [String]),
    /// The difference.
    Update,
    /// A whole new document.
    Replacement,
}

/// Puts `new` in the place of `old`, which has the same `_id`. Only indexes whose keys change are touched. Nothing is
/// written on an error.
pub fn update(
    txn: &mut Transaction,
    collection: &Collection,
    old: Doc<'_>,
    new: Doc<'_>,
    kind: UpdateKind<'_>,
) -> Result<()> {
    let id_key = collection.id_key(checked_id(new)?);
    debug_assert!(old.get("_id").is_some_and(|id| collection.id_key(id) == id_key), "an update keeps the _id");
    stop::ended()?;
    let tree = collection.tree_of(&id_key);
    paranoid!(!matches!(txn.get(tree, &id_key), Ok(None)), "what is updated is there");
    txn.claim(tree, &id_key)?;
    let mut changes = Vec::new();
    for index in &collection.indexes {
        if index.same_fields(old, new) {
            continue;
        }
        let before = index.keys_of(old)?;
        let after = index.keys_of(new)?;
        let change = difference(before.keys, after.keys, index.clustering);
        for key in &change.added {
            check_unique(txn, collection, index, key)?;
            claim_unique(txn, index, key)?;
        }
        changes.push((&**index, change, after.multikey));
    }
    for (index, _, multikey) in &changes {
        note_multikey(txn, index, multikey)?;
    }
    for (index, change, _) in &changes {
        for key in &change.removed {
            delete_entry(txn, index, key, &id_key);
        }
        for key in change.added.iter().chain(&change.rewritten) {
            put_entry(txn, index, key, &id_key, new);
        }
    }
    let about = |statement| noting::about_update(collection, old, new, kind, statement);
    noting::put(txn, collection, &id_key, new, about);
    let growth = new.as_bytes().len() as i64 - old.as_bytes().len() as i64;
    if growth != 0 {
        txn.add_counter(bytes_counter(tree), growth);
    }
    Ok(())
}

/// Removes a document. Nothing is written on an error.
pub fn delete(txn: &mut Transaction, collection: &Collection, old: Doc<'_>) -> Result<()> {
    delete_with(txn, collection, old, Emit::Event)
}

/// Like [`delete`], but the history does not show it.
pub fn delete_unseen(txn: &mut Transaction, collection: &Collection, old: Doc<'_>) -> Result<()> {
    delete_with(txn, collection, old, Emit::Nothing)
}

/// Like [`delete`], but the caller chooses whether the history shows the deletion.
pub(crate) fn delete_with(txn: &mut Transaction, collection: &Collection, old: Doc<'_>, emit: Emit) -> Result<()> {
    let id_key = collection.id_key(checked_id(old)?);
    stop::ended()?;
    let tree = collection.tree_of(&id_key);
    paranoid!(!matches!(txn.get(tree, &id_key), Ok(None)), "what is deleted is there");
    txn.claim(tree, &id_key)?;
    let mut changes = Vec::with_capacity(collection.indexes.len());
    for index in &collection.indexes {
        changes.push((&**index, index.keys_of(old)?));
    }
    for (index, keys) in changes {
        for key in &keys.keys {
            delete_entry(txn, index, key, &id_key);
        }
    }
    capped::deleted(txn, collection, &id_key)?;
    noting::delete(txn, collection, id_key, old, emit);
    txn.add_counter(count_counter(tree), -1);
    txn.add_counter(bytes_counter(tree), -(old.as_bytes().len() as i64));
    Ok(())
}

fn checked_id(doc: Doc<'_>) -> Result<ValueRef<'_>> {
    match doc.get("_id") {
        None => Err(Error::InvalidId("the document has no _id")),
        Some(ValueRef::Array(_)) => Err(Error::InvalidId("The '_id' value cannot be of type array")),
        Some(ValueRef::Regex { .. }) => Err(Error::InvalidId("The '_id' value cannot be of type regex")),
        Some(ValueRef::Undefined) => Err(Error::InvalidId("The '_id' value cannot be of type undefined")),
        Some(id) => Ok(id),
    }
}

fn duplicate_id(collection: &Collection, id: ValueRef<'_>) -> Error {
    Error::DuplicateKey {
        namespace: collection.namespace.clone(),
        index_name: "_id_".to_owned(),
        key_pattern: DocBuf::new().with("_id", 1i32),
        key_value: DocBuf::new().with("_id", &in_index(&collection.collation, id)),
        collation: collection.collation.clone(),
    }
}

fn in_index(collation: &Collation, value: ValueRef<'_>) -> Value {
    collation.shown(&collation.index_value(value))
}

/// The error for a key that another document has.
pub(crate) fn duplicate_key(collection: &Collection, index: &Index, key: &Key) -> Error {
    let values = keystring::decode(&key.bytes, &key.type_bits, &index.descending()).unwrap_or_default();
    let values: Vec<Value> = values.iter().map(|value| index.collation.shown(value)).collect();
    let paths = index.key_pattern.iter().map(|field| field.path.as_str());
    Error::DuplicateKey {
        namespace: collection.namespace.clone(),
        index_name: index.name.clone(),
        key_pattern: index.key.clone(),
        key_value: paths.zip(&values).collect(),
        collation: index.collation.clone(),
    }
}

/// Requires a key that the document itself does not have yet.
pub(crate) fn check_unique(txn: &Transaction, collection: &Collection, index: &Index, key: &Key) -> Result<()> {
    let taken = match &index.spec {
        IndexSpec { unique: true, .. } => txn.get(index.tree, &key.bytes)?.is_some(),
        IndexSpec { prepare_unique: true, .. } => {
            let mut cursor = IndexCursor::new(txn, index)?;
            cursor.seek(&key.bytes)? && cursor.key() == key.bytes
        }
        _ => false,
    };
    if taken { Err(duplicate_key(collection, index, key)) } else { Ok(()) }
}

/// Claims a unique key, so that no other open transaction takes it.
fn claim_unique(txn: &mut Transaction, index: &Index, key: &Key) -> Result<()> {
    if index.unique || index.prepare_unique {
        txn.claim(index.tree, &key.bytes)?;
    }
    Ok(())
}

/// The entry of one key of one document.
pub(crate) fn entry_of(index: &Index, key: &Key, id_key: &[u8], doc: Doc<'_>) -> (Vec<u8>, Vec<u8>) {
    let document = doc.as_bytes();
    entry::encode(index, Parts { values: &key.bytes, id_key, type_bits: &key.type_bits, document })
}

pub(crate) fn put_entry(txn: &mut Transaction, index: &Index, key: &Key, id_key: &[u8], doc: Doc<'_>) {
    work::note(|work| work.keys_inserted += 1);
    if index.prepare_unique {
        // There is no row at the values alone: this delete makes concurrent transactions that add the same key conflict.
        txn.delete(index.tree, key.bytes.clone());
    }
    let (key, value) = entry_of(index, key, id_key, doc);
    txn.put(index.tree_of(id_key), key, value);
}

pub(crate) fn delete_entry(txn: &mut Transaction, index: &Index, key: &Key, id_key: &[u8]) {
    work::note(|work| work.keys_deleted += 1);
    txn.delete(index.tree_of(id_key), entry::key_of(index, &key.bytes, id_key));
}

/// Makes the arrays of this document known to readers and to the catalogue.
fn note_multikey(txn: &mut Transaction, index: &Index, masks: &[u64]) -> Result<()> {
    if masks.iter().all(|mask| *mask == 0) {
        return Ok(());
    }
    index.multikey.expect(masks);
    debug_assert!(index.multikey.expects(masks), "readers know of arrays before the commit that brings them");
    if index.multikey.is_stored(masks) {
        return Ok(());
    }
    let at = catalogue::multikey_key(index.tree);
    let mut stored = catalogue::decode_masks(txn.get(CATALOGUE, &at)?.as_deref(), index.key_pattern.len());
    if txn.is_empty() {
        // What the snapshot shows is committed; what own writes show may still be undone.
        index.multikey.set_stored(&stored);
    }
    let missing = stored.iter().zip(masks).any(|(stored, mask)| stored & mask != *mask);
    if missing {
        txn.claim(CATALOGUE, &at)?;
        assert!(stored.len() == masks.len(), "{} flags of {} fields", stored.len(), masks.len());
        stored.iter_mut().zip(masks).for_each(|(stored, mask)| *stored |= mask);
        txn.put(CATALOGUE, at, catalogue::encode_masks(&stored));
    }
    Ok(())
}

/// The changes of a document's keys in one index.
#[derive(Default)]
pub(crate) struct Difference {
    pub removed: Vec<Key>,
    pub added: Vec<Key>,
    /// The entry stays and its value changes: equal values of another type, or the document in a clustering index.
    pub rewritten: Vec<Key>,
}

/// Requires keys in order, each once.
pub(crate) fn difference(before: Vec<Key>, after: Vec<Key>, clustering: bool) -> Difference {
    let in_order = |keys: &[Key]| keys.is_sorted_by(|one, next| one.bytes < next.bytes);
    debug_assert!(in_order(&before) && in_order(&after), "keys come in order, each once");
    let mut found = Difference::default();
    let (mut old, mut new) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return found,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.bytes.cmp(&new.bytes),
        };
        match order {
            Ordering::Less => found.removed.extend(old.next()),
            Ordering::Greater => found.added.extend(new.next()),
            Ordering::Equal => {
                let retyped = old.next().map(|key| key.type_bits) != new.peek().map(|key| key.type_bits.clone());
                found.rewritten.extend(new.next().filter(|_| retyped || clustering));
            }
        }
    }
}

impl Index {
    /// Returns true if both documents have identical values in every top-level field that the index uses.
    pub(crate) fn same_fields(&self, old: Doc<'_>, new: Doc<'_>) -> bool {
        let sources = self.generator.sources(&self.key_pattern);
        let Some(sources) = sources.filter(|_| !self.clustering && self.partial.is_none()) else {
            return old.as_bytes() == new.as_bytes();
        };
        let same = |name: &str| match (old.get(name), new.get(name)) {
            (None, None) => true,
            (Some(old), Some(new)) => identical(old, new),
            _ => false,
        };
        sources.into_iter().all(same)
    }
}
