//! `$all`, `$elemMatch`, `$size`.

use std::sync::Arc;

use arbor_bson::{Doc, ValueRef};

use super::parse::{Parser, is_operator};
use super::{Compare, Node, Regex};
use crate::stop::tick;
use crate::{Error, Path, Result, number, text};

/// `$all` is an `And` of equalities, regular expressions or `$elemMatch`es; an empty list matches nothing.
pub(super) fn parse_all(parser: &mut Parser, path: Path, value: ValueRef) -> Result<Node> {
    let ValueRef::Array(list) = value else {
        return Err(Error::bad_value("$all needs an array"));
    };
    if list.is_empty() {
        return Ok(Node::AlwaysFalse);
    }
    let elem_match = |value: ValueRef| matches!(value, ValueRef::Document(d) if d.get("$elemMatch").is_some());
    let by_elem_match = list.get(0).is_some_and(elem_match);
    let mut parts = Vec::new();
    for value in list.iter() {
        tick()?;
        parts.push(match value {
            ValueRef::Document(doc) if by_elem_match && doc.first().is_some_and(|(name, _)| name == "$elemMatch") => {
                parse_elem_match(parser, path.clone(), doc.get("$elemMatch").unwrap_or(ValueRef::Null))?
            }
            _ if by_elem_match => return Err(Error::bad_value("$all/$elemMatch has to be consistent")),
            ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| is_operator(name)) => {
                return Err(Error::bad_value("no $ expressions in $all"));
            }
            ValueRef::Regex { pattern, options } => {
                Node::Regex { path: path.clone(), regex: Arc::new(Regex::new(pattern, options)?) }
            }
            other => Node::Compare { path: path.clone(), op: Compare::Eq, value: other.to_value() },
        });
    }
    Ok(Node::And(parts))
}

pub(super) fn parse_elem_match(parser: &mut Parser, path: Path, value: ValueRef) -> Result<Node> {
    let ValueRef::Document(inner) = value else {
        return Err(Error::bad_value("$elemMatch needs an Object"));
    };
    if is_value_match(inner) {
        let inner = Box::new(parser.operators("", inner)?);
        return Ok(Node::ElemMatchValue { path, inner });
    }
    let inner = Box::new(parser.nested(inner)?);
    Ok(Node::ElemMatchObject { path, inner })
}

/// Returns true if the operand of `$elemMatch` holds operators for the elements themselves.
fn is_value_match(inner: Doc) -> bool {
    inner.first().is_some_and(|(name, _)| is_operator(name) && !matches!(name, "$and" | "$or" | "$nor" | "$where"))
}

pub(super) fn parse_size(path: Path, value: ValueRef) -> Result<Node> {
    let fail = |problem: &str| {
        let field = text::field("$size", value);
        Err(Error::bad_value(format!("Failed to parse $size. {problem}: {field}")))
    };
    if !number::is_number(value) {
        return fail("Expected a number in");
    }
    match number::exact_i64(value) {
        None if number::to_f64(value).is_some_and(|v| v.is_finite() && v.fract() != 0.0) => fail("Expected an integer"),
        None => fail("Cannot represent as a 64-bit integer"),
        Some(size) if size < 0 => fail("Expected a non-negative number in"),
        Some(size) => Ok(Node::Size { path, size }),
    }
}

/// Returns true if the value is an array of exactly `size` elements.
pub(super) fn has_size(value: Option<ValueRef>, size: i64) -> bool {
    match value {
        Some(ValueRef::Array(array)) => array.iter().take(size as usize + 1).count() as i64 == size,
        _ => false,
    }
}
