//! Reading single records and the exact size of a collection.

use std::borrow::Cow;

use arbor_bson::{ValueRef, keystring};
use arbor_txn::View;

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
    Ok(view.get(collection.tree, id_key)?)
}

/// Exact number of documents at the view's snapshot (with its own writes).
pub fn count(view: &(impl View + ?Sized), collection: &Collection) -> Result<u64> {
    Ok(view.counter(collection.count_counter())?.max(0) as u64)
}

/// Exact sum of the documents' sizes at the view's snapshot.
pub fn data_size(view: &(impl View + ?Sized), collection: &Collection) -> Result<u64> {
    Ok(view.counter(collection.bytes_counter())?.max(0) as u64)
}
