//! Buckets whose last measurement is too old.

use arbor_bson::{DocBuf, ValueRef};
use arbor_lang::time_series::last_id;
use arbor_store::Collection;

use super::options_of;
use crate::Result;

/// The filter of the buckets that have expired when `oldest_ms` is the oldest time that stays.
pub(crate) fn expired(buckets: &Collection, oldest_ms: i64) -> Result<DocBuf> {
    let options = options_of(buckets)?;
    let until = |value: ValueRef<'_>| DocBuf::new().with("$lte", value);
    let id = until(ValueRef::ObjectId(last_id(oldest_ms.div_euclid(1000))));
    let last = until(ValueRef::DateTime(oldest_ms));
    Ok(DocBuf::new().with("_id", &id).with(&format!("control.max.{}", options.time_field), &last))
}
