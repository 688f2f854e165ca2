//! `{ $count: "name" }`: one document with the number of documents; none for no documents.

use arbor_bson::{DocBuf, ValueRef};

use super::{Group, Stage, project};
use crate::{Context, Error, Result};

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<[Stage; 2]> {
    let ValueRef::String(name) = spec else {
        return Err(Error::location(40156, "the count field must be a non-empty string"));
    };
    let problem = match name {
        "" => Some((40157, "the count field must be a non-empty string")),
        _ if name.starts_with('$') => Some((40158, "the count field cannot be a $-prefixed path")),
        _ if name.contains('\0') => Some((40159, "the count field cannot contain a null byte")),
        _ if name.contains('.') => Some((40160, "the count field cannot contain '.'")),
        _ => None,
    };
    if let Some((code, message)) = problem {
        return Err(Error::location(code, message));
    }
    let group = DocBuf::new().with("_id", ValueRef::Null).with(name, &DocBuf::new().with("$sum", 1));
    let without_id = DocBuf::new().with("_id", 0);
    Ok([
        Stage::Group(Group::parse((&group).into(), context)?),
        Stage::Map(project::parse((&without_id).into(), context)?),
    ])
}
