//! The tree of a query predicate, public so that the planner can derive index bounds from it.

use std::sync::Arc;

use arbor_bson::Value;

use super::bits::BitTest;
use super::key_ranges::KeyRanges;
use super::regex::Regex;
use super::text::TextNode;
use super::type_set::TypeSet;
use crate::geo::{GeoTest, Near};
use crate::json_schema::Schema;
use crate::{Expression, Path};

/// One predicate. `$ne`, `$nin` and `$not` are `Not` around what they negate; `$all` is an `And` of its parts.
#[derive(Clone, Debug)]
pub enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Nor(Vec<Node>),
    Not(Box<Node>),
    Compare {
        path: Path,
        op: Compare,
        value: Value,
    },
    In(In),
    Exists {
        path: Path,
    },
    Type {
        path: Path,
        types: TypeSet,
    },
    Regex {
        path: Path,
        regex: Arc<Regex>,
    },
    Mod {
        path: Path,
        divisor: i64,
        remainder: i64,
    },
    Bits {
        path: Path,
        test: BitTest,
    },
    Size {
        path: Path,
        size: i64,
    },
    /// `$elemMatch` with a filter for elements that are documents (or arrays, by position).
    ElemMatchObject {
        path: Path,
        inner: Box<Node>,
    },
    /// `$elemMatch` with operators for the elements themselves. The inner predicates have the empty path.
    ElemMatchValue {
        path: Path,
        inner: Box<Node>,
    },
    /// `$geoWithin` and `$geoIntersects`.
    Geo {
        path: Path,
        test: Arc<GeoTest>,
    },
    /// `$near` and `$nearSphere`. As a predicate it says that a document is within the limits; the order is the
    /// planner's matter.
    Near(Arc<Near>),
    Expr(Expression),
    Schema(Arc<Schema>),
    Text(TextNode),
    /// True outside of ranges of a shard key.
    Outside(Arc<KeyRanges>),
    /// True for this share of all documents.
    SampleRate(f64),
    AlwaysTrue,
    AlwaysFalse,
}

/// Comparisons see values of the operand's own type class only ("type bracketing"), see [`super::holds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Lt,
    Lte,
    Gt,
    Gte,
}

/// `$in`: values sorted and without repetitions by the collation of the filter, and regular expressions.
#[derive(Clone, Debug)]
pub struct In {
    pub path: Path,
    pub values: Vec<Value>,
    pub regexes: Vec<Arc<Regex>>,
}

impl Node {
    /// The path the predicate is about, for those that have one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Node::Compare { path, .. }
            | Node::Exists { path }
            | Node::Type { path, .. }
            | Node::Regex { path, .. }
            | Node::Mod { path, .. }
            | Node::Bits { path, .. }
            | Node::Size { path, .. }
            | Node::ElemMatchObject { path, .. }
            | Node::ElemMatchValue { path, .. }
            | Node::Geo { path, .. } => Some(path),
            Node::Near(near) => Some(&near.path),
            Node::In(membership) => Some(&membership.path),
            _ => None,
        }
    }

    /// Like [`Node::path`], but mutable; none for geospatial predicates.
    pub fn path_mut(&mut self) -> Option<&mut Path> {
        match self {
            Node::Compare { path, .. }
            | Node::Exists { path }
            | Node::Type { path, .. }
            | Node::Regex { path, .. }
            | Node::Mod { path, .. }
            | Node::Bits { path, .. }
            | Node::Size { path, .. }
            | Node::ElemMatchObject { path, .. }
            | Node::ElemMatchValue { path, .. } => Some(path),
            Node::In(membership) => Some(&mut membership.path),
            _ => None,
        }
    }
}
