//! `{ $sort: { a: 1, b: -1 } }`.

use arbor_bson::ValueRef;

use crate::{Context, Error, Result, SortPattern};

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<SortPattern> {
    let ValueRef::Document(pattern) = spec else {
        return Err(Error::location(15973, "the $sort key specification must be an object"));
    };
    if pattern.is_empty() {
        return Err(Error::location(15976, "$sort stage must have at least one sort key"));
    }
    SortPattern::parse(pattern, context)
}
