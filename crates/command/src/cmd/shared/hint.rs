//! `hint`: an index by name or by key pattern.

use arbor_bson::ValueRef;
use arbor_protocol::arguments::Field;
use arbor_query::Hint;

use crate::{Error, Result};

pub(crate) fn read<'v>(field: Field<'_>, value: ValueRef<'v>) -> Result<Option<Hint<'v>>> {
    match value {
        ValueRef::Document(pattern) if pattern.is_empty() => Ok(None),
        ValueRef::Document(pattern) => Ok(Some(Hint::Pattern(pattern))),
        ValueRef::String(name) => Ok(Some(Hint::Name(name))),
        _ => Err(Error::failed_to_parse(format!("Hint must be a string or an object ({field})"))),
    }
}
