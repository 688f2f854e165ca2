//! `{ $project: { a: 1, b: <expression>, ... } }`.

use arbor_bson::ValueRef;

use super::map::{Map, invalid};
use crate::projection::{Projection, ProjectionKind};
use crate::{Context, Error, Result};

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<Map> {
    let ValueRef::Document(spec) = spec else {
        return Err(Error::location(15969, "$project specification must be an object"));
    };
    if spec.is_empty() {
        let message = "projection specification must have at least one field";
        return Err(invalid("$project", Error::location(51272, message)));
    }
    let projection = Projection::parse(spec, ProjectionKind::Aggregate, None, context);
    Ok(Map::projection("$project", projection.map_err(|error| invalid("$project", error))?))
}
