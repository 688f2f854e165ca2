//! Deleting what has expired, one batch of one TTL index.
//!
//! A document has expired when a date under the indexed path is old enough; with several, the lowest one counts. Whatever
//! is no date never expires. Documents go through the ordinary write path, found by a scan of the index.

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_store::{Collection, Index, Namespace};

use super::delete::delete_all;
use crate::plan::{ChosenIndex, Query};
use crate::{Interrupt, Result, Scope};

/// Deletes at most `documents_max` documents that have expired at `now_ms`; returns how many. Fewer than that: there are
/// no more. Nothing is done for an index that is not there any more.
pub fn expire(
    scope: &Scope<'_>,
    namespace: &Namespace,
    index: &str,
    now_ms: i64,
    documents_max: u64,
    interrupt: &Interrupt,
) -> Result<u64> {
    let held = scope.store.hold(namespace);
    let Some(collection) = held.as_deref() else { return Ok(0) };
    let Some(index) = collection.index(index) else { return Ok(0) };
    let Some(filter) = expired(collection, index, now_ms) else { return Ok(0) };
    let mut query = Query::parse(filter.as_doc(), None, &scope.context(namespace, Some(&index.collation), None)?)?;
    query.hint = Some(ChosenIndex::HiddenToo(index.name.clone()));
    query.limit = Some(documents_max);
    delete_all(scope, Some(collection), &query, interrupt)
}

/// Like [`expire`], for the expiration of a clustered collection by its `_id`s, and of a time series' buckets by their times.
pub fn expire_clustered(
    scope: &Scope<'_>,
    namespace: &Namespace,
    now_ms: i64,
    documents_max: u64,
    interrupt: &Interrupt,
) -> Result<u64> {
    let held = scope.store.hold(namespace);
    let Some(collection) = held.as_deref() else { return Ok(0) };
    let (Some(seconds), Some(_)) = (collection.expire_after_seconds(), collection.clustered_index()) else {
        return Ok(0);
    };
    let oldest_ms = now_ms.saturating_sub(seconds.saturating_mul(1000));
    let filter = match collection.time_series() {
        Some(_) => crate::time_series::expired(collection, oldest_ms)?,
        None => DocBuf::new().with("_id", &DocBuf::new().with("$lte", ValueRef::DateTime(oldest_ms))),
    };
    let mut query = Query::parse(filter.as_doc(), None, &scope.context(namespace, None, None)?)?;
    query.limit = Some(documents_max);
    delete_all(scope, Some(collection), &query, interrupt)
}

/// The filter of the documents that have expired.
fn expired(collection: &Collection, index: &Index, now_ms: i64) -> Option<DocBuf> {
    let age_ms = index.expire_after_seconds?.saturating_mul(1000);
    let oldest = ValueRef::DateTime(now_ms.saturating_sub(age_ms));
    let until = DocBuf::new().with("$lte", oldest);
    let expired = match (index.key_pattern.as_slice(), collection.time_series()) {
        ([field], _) => DocBuf::new().with(&field.path, &until),
        // the first and the last time of a bucket
        ([one, other], Some(_)) => DocBuf::new().with(&one.path, &until).with(&other.path, &until),
        _ => return None,
    };
    match &index.partial {
        // a document may leave the index between the scan and its deletion
        Some(partial) => {
            let both: ArrayBuf = [&expired, partial.doc()].into_iter().collect();
            Some(DocBuf::new().with("$and", &both))
        }
        None => Some(expired),
    }
}
