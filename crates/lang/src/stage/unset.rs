//! `{ $unset: "a" }` or `{ $unset: ["a", "b.c"] }`: an exclusion.

use arbor_bson::{DocBuf, ValueRef};

use super::map::{Map, invalid};
use crate::projection::{Projection, ProjectionKind};
use crate::stop::tick;
use crate::{Context, Error, Result};

/// Refuses elements that are no strings, then null bytes, before the paths are read.
fn check_names(spec: ValueRef) -> Result<()> {
    let null_byte = |name: ValueRef| matches!(name, ValueRef::String(name) if name.contains('\0'));
    let refused = || Err(Error::location(9527900, "$unset: a field name must not contain an embedded null byte"));
    match spec {
        ValueRef::Array(names) if names.iter().all(|name| matches!(name, ValueRef::String(_))) => {
            if names.iter().any(null_byte) { refused() } else { Ok(()) }
        }
        ValueRef::Array(_) => {
            let message = "$unset specification must be a string or an array containing only string values";
            Err(Error::location(31120, message))
        }
        ValueRef::String("$") => {
            let message = "FieldPath field names may not start with '$'. Consider using $getField or $setField.";
            Err(Error::location(16410, message))
        }
        name if null_byte(name) => refused(),
        _ => Ok(()),
    }
}

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<Map> {
    check_names(spec)?;
    let mut exclusion = DocBuf::new();
    match spec {
        ValueRef::String(name) => drop(exclusion.append(name, 0)),
        ValueRef::Array(names) => {
            if names.is_empty() {
                let message = "$unset specification must be a string or an array with at least one field";
                return Err(Error::location(31119, message));
            }
            for name in names.iter() {
                tick()?;
                if let ValueRef::String(name) = name {
                    exclusion.append(name, 0);
                }
            }
        }
        _ => return Err(Error::location(31002, "$unset specification must be a string or an array")),
    }
    let projection = Projection::parse(exclusion.as_doc(), ProjectionKind::Aggregate, None, context);
    Ok(Map::projection("$unset", projection.map_err(|error| invalid("$unset", error))?))
}
