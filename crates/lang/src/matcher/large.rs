//! The memory of large filters: a list of a million values takes 40 times its bytes until it is bounds of an index.

use std::sync::Arc;

use arbor_base::memory::{self, Class, Reservation};
use arbor_bson::{Doc, ValueRef};

use crate::stop::{tick, tick_for};
use crate::{Code, Error, Result};

/// Smaller ones are not accounted.
const LARGE_BYTES_MIN: usize = 256 << 10;

/// Copies of what a filter says: its values, those of its intervals, keys.
const COPIES: usize = 4;

/// Overhead of a value in addition to its bytes. Measured on 2026-11-23: 480 bytes in all for each number of a list of a million.
const VALUE_BYTES: usize = 420;

/// Reserves what the filter takes, parsed and planned. `None`: it is a small one.
///
/// Errors: ExceededMemoryLimit.
pub(super) fn reserve(filter: Doc<'_>) -> Result<Option<Arc<Reservation>>> {
    let bytes = filter.as_bytes().len();
    if bytes < LARGE_BYTES_MIN {
        return Ok(None);
    }
    let bytes = COPIES * bytes + VALUE_BYTES * values(filter.into())?;
    let mut reservation = memory::process().reservation(Class::Statement);
    if reservation.try_cover_all(bytes) {
        return Ok(Some(Arc::new(reservation)));
    }
    let message = format!("a filter that takes {bytes} bytes of memory exceeds what the limit of the process leaves");
    Err(Error::new(Code::EXCEEDED_MEMORY_LIMIT, message))
}

/// Values in the lists of a filter; what is deeper inside them is bytes only.
fn values(value: ValueRef<'_>) -> Result<usize> {
    tick()?;
    match value {
        ValueRef::Document(doc) => doc.iter().map(|(_, value)| values(value)).sum(),
        ValueRef::Array(array) => array.iter().map(of_element).sum(),
        _ => Ok(1),
    }
}

/// A list of conditions has lists again.
fn of_element(value: ValueRef<'_>) -> Result<usize> {
    tick_for(value.content_bytes())?;
    match value {
        ValueRef::Document(doc) => Ok(1 + doc.iter().filter(|(_, value)| is_nested(value)).count()),
        _ => Ok(1),
    }
}

fn is_nested(value: &ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Document(_) | ValueRef::Array(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf};

    #[test]
    fn a_list_is_counted_by_its_values() {
        let list = |count: i32| (0..count).collect::<ArrayBuf>();
        let filter = |count| DocBuf::new().with("a", &DocBuf::new().with("$in", &list(count)));
        assert!(reserve(filter(1000).as_doc()).unwrap().is_none());
        let reserved = reserve(filter(100_000).as_doc()).unwrap().unwrap().bytes();
        assert!((42_000_000..60_000_000).contains(&reserved), "{reserved}");
        assert_eq!(values((&filter(5)).into()).unwrap(), 5);
    }
}
