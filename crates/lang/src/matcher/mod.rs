//! Query predicates: `find`'s filter, `$match`, the `q` of updates and deletes.

mod bits;
mod node;
pub mod regex;
mod type_set;

use arbor_bson::Doc;

use crate::{Context, Error, Result};

pub use bits::BitTest;
pub use node::{Compare, In, Node};
pub use regex::Regex;
pub use type_set::TypeSet;

/// A parsed and simplified query predicate. Shared freely between threads; matching allocates nothing by itself.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
}

/// A document matched. `position` is the index of the first matching element of the array that the last array
/// predicate of the filter went through: what `$` stands for in updates and projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    pub position: Option<usize>,
}

impl Filter {
    pub fn parse(_filter: Doc, _context: &Context) -> Result<Filter> {
        Err(Error::not_implemented("matching"))
    }

    /// The tree, simplified: no `And` directly inside an `And`, no `Or` of one branch. `And(vec![])` matches everything.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Whether the filter was `{}` or simplifies to it.
    pub fn matches_everything(&self) -> bool {
        matches!(&self.root, Node::And(branches) if branches.is_empty()) || matches!(self.root, Node::AlwaysTrue)
    }

    pub fn matches(&self, doc: Doc) -> Result<bool> {
        Ok(self.matches_with_position(doc)?.is_some())
    }

    /// `None` when the document does not match.
    pub fn matches_with_position(&self, _doc: Doc) -> Result<Option<Matched>> {
        Err(Error::not_implemented("matching"))
    }
}
