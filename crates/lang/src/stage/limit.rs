//! `{ $limit: 5 }`.

use arbor_bson::ValueRef;

use super::skip::count;
use crate::{Error, Result};

pub(super) fn parse(spec: ValueRef) -> Result<u64> {
    match count("$limit", 5107201, spec)? {
        0 => Err(Error::location(15958, "the limit must be positive")),
        limit => Ok(limit),
    }
}
