//! `{ $sortByCount: <expression> }`: how often each value occurs, the most frequent first.

use arbor_bson::{DocBuf, ValueRef};

use super::{Group, Stage, sort};
use crate::{Context, Error, Result};

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<[Stage; 2]> {
    match spec {
        ValueRef::String(path) if path.starts_with('$') => {}
        ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| name.starts_with('$')) => {}
        ValueRef::String(_) => {
            return Err(Error::location(40148, "the sortByCount field must be defined as a $-prefixed path"));
        }
        ValueRef::Document(_) => {
            let message =
                "the sortByCount field must be defined as a $-prefixed path or an expression inside an object";
            return Err(Error::location(40147, message));
        }
        _ => {
            let message =
                "the sortByCount field must be specified as a string with a $-prefixed path or an expression object";
            return Err(Error::location(40149, message));
        }
    }
    let group = DocBuf::new().with("_id", spec).with("count", &DocBuf::new().with("$sum", 1));
    let order = DocBuf::new().with("count", -1);
    Ok([Stage::Group(Group::parse((&group).into(), context)?), Stage::Sort(sort::parse((&order).into(), context)?)])
}
