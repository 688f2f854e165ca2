//! `{ $unset: "a" }` or `{ $unset: ["a", "b.c"] }`: an exclusion.

use arbor_bson::{DocBuf, ValueRef};

use super::map::{Map, invalid};
use crate::projection::{Projection, ProjectionKind};
use crate::stop::tick;
use crate::{Context, Error, Result};

pub fn parse(spec: ValueRef, context: &Context) -> Result<Map> {
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
                let ValueRef::String(name) = name else {
                    let message = "$unset specification must be a string or an array containing only string values";
                    return Err(Error::location(31120, message));
                };
                exclusion.append(name, 0);
            }
        }
        _ => return Err(Error::location(31002, "$unset specification must be a string or an array")),
    }
    let projection = Projection::parse(exclusion.as_doc(), ProjectionKind::Aggregate, None, context);
    Ok(Map::projection("$unset", projection.map_err(|error| invalid("$unset", error))?))
}
