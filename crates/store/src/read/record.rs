//! Reading single records and the exact size of a collection.

use std::borrow::Cow;

use arbor_base::TreeId;
use arbor_base::memory::values;
use arbor_bson::{ValueRef, keystring};
use arbor_txn::{RangeEstimate, View};

use crate::collection::{bytes_counter, count_counter};
use crate::{Collection, Result};

/// Returns the key of the record with this `_id` in a collection without a collation; see
/// [`Collection::id_key`].
pub fn id_key(id: ValueRef<'_>) -> Vec<u8> {
    keystring::key_of(id).bytes
}

/// The document with this id key: one read of the engine.
pub fn record<'v>(
    view: &'v (impl View + ?Sized),
    collection: &Collection,
    id_key: &[u8],
) -> Result<Option<Cow<'v, [u8]>>> {
    let record = view.get(collection.tree_of(id_key), id_key)?;
    // where the engine did not know how large it is
    values::before_value(record.as_ref().map_or(0, |record| record.len()));
    Ok(record)
}

/// Exact number of documents at the view's snapshot (with its own writes).
pub fn count(view: &(impl View + ?Sized), collection: &Collection) -> Result<u64> {
    let mut sum = 0;
    for tree in collection.record_trees() {
        sum += view.counter(count_counter(tree))?.max(0) as u64;
    }
    Ok(sum)
}

/// Exact sum of the documents' sizes at the view's snapshot.
pub fn data_size(view: &(impl View + ?Sized), collection: &Collection) -> Result<u64> {
    let mut sum = 0;
    for tree in collection.record_trees() {
        sum += view.counter(bytes_counter(tree))?.max(0) as u64;
    }
    Ok(sum)
}

/// Exact numbers of documents and of their bytes in one tree of records.
pub fn counted(view: &(impl View + ?Sized), tree: TreeId) -> Result<(u64, u64)> {
    let exact = |counter| Ok(view.counter(counter)?.max(0) as u64);
    exact(count_counter(tree)).and_then(|documents| Ok((documents, exact(bytes_counter(tree))?)))
}

/// Rough number of records and bytes in `from <= key < to` (`to == None`: to the end).
pub fn estimate(
    view: &(impl View + ?Sized),
    collection: &Collection,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<RangeEstimate> {
    let mut all = RangeEstimate::default();
    for tree in collection.trees_between(from, to) {
        let own = view.estimate(tree, from, to)?;
        all.keys += own.keys;
        all.bytes += own.bytes;
    }
    Ok(all)
}
