//! `{ $match: <filter> }`.

use arbor_bson::ValueRef;

use crate::{Context, Error, Filter, Result};

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<Filter> {
    match spec {
        ValueRef::Document(filter) => Filter::parse(filter, context),
        _ => Err(Error::location(15959, "the match filter must be an expression in an object")),
    }
}
