//! `$clusterTime` and other hybrid times, as requests and replies show them.

use arbor_bson::{Doc, Timestamp, ValueRef};

use crate::Result;
use crate::arguments::Field;

/// The time in a `$clusterTime`.
pub fn read(shown: Doc<'_>) -> Result<u64> {
    let field = Field::new("$clusterTime", "clusterTime");
    match shown.get("clusterTime") {
        Some(ValueRef::Timestamp(Timestamp { seconds, increment })) => {
            Ok(u64::from(seconds) << 32 | u64::from(increment))
        }
        Some(other) => Err(field.wrong_type(other, "timestamp")),
        None => Err(field.missing()),
    }
}

/// Returns a hybrid time as replies show it.
pub fn timestamp(time: u64) -> ValueRef<'static> {
    ValueRef::Timestamp(Timestamp { seconds: (time >> 32) as u32, increment: time as u32 })
}
