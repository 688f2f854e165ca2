//! Query predicates: `find`'s filter, `$match`, the `q` of updates and deletes.

mod array;
mod bits;
mod compare;
mod equalities;
mod evaluate;
pub(crate) mod key_ranges;
mod large;
mod membership;
mod modulo;
mod node;
mod optimise;
mod parse;
pub mod regex;
mod regex_long;
mod regex_syntax;
#[cfg(test)]
mod tests;
mod text;
pub mod type_set;
mod unsupported;

use std::sync::Arc;

use arbor_base::memory::Reservation;
use arbor_bson::{Doc, ValueRef};

use self::evaluate::State;
use crate::geo::Near;
use crate::{Collation, Context, Error, Input, Path, Result, stop};

pub use bits::{BitKind, BitTest};
pub use compare::holds;
pub use node::{Compare, In, Node};
pub use regex::Regex;
pub use text::{TextNode, index_required};
pub use type_set::TypeSet;

/// Error text for a `$near` where nothing is planned.
const NEAR_OUT_OF_PLACE: &str = "$geoNear, $near, and $nearSphere are not allowed in this context, as these operators \
    require sorting geospatial data. If you do not need sort, consider using $geoWithin instead. Check out \
    https://dochub.mongodb.org/core/near-sort-operation and \
    https://dochub.mongodb.org/core/nearSphere-sort-operation for more details.";

/// A parsed and simplified query predicate. Shared freely between threads; matching allocates nothing by itself.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
    /// Collation of its strings; `$expr` and lists of `$in` have their own copy.
    collation: Collation,
    /// Memory reserved for a large filter.
    _memory: Option<Arc<Reservation>>,
}

/// A document matched. `position` is the index of the first matching element of the array that the last array
/// predicate of the filter went through: the value of `$` in updates and projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    pub position: Option<usize>,
}

impl Filter {
    pub fn parse(filter: Doc, context: &Context) -> Result<Filter> {
        let memory = large::reserve(filter)?;
        let mut parser = parse::Parser::new(context);
        let root = parser.document(filter)?;
        text::check(&root, parser.has_text)?;
        if parser.nears > 0 {
            return Err(Error::location(5_626_500, NEAR_OUT_OF_PLACE));
        }
        Ok(Filter { _memory: memory, ..Filter::of(root, context)? })
    }

    /// A filter that is going to be planned: it may have one `$near`, which says the order too.
    pub fn parse_query(filter: Doc, context: &Context) -> Result<Filter> {
        let memory = large::reserve(filter)?;
        let mut parser = parse::Parser::new(context);
        let root = parser.document(filter)?;
        text::check(&root, parser.has_text)?;
        if parser.has_text && parser.nears > 0 {
            return Err(Error::bad_value("text and geoNear not allowed in same query"));
        }
        let filter = Filter { _memory: memory, ..Filter::of(root, context)? };
        match parser.nears {
            0 => Ok(filter),
            1 if filter.near().is_some() => Ok(filter),
            1 => Err(Error::bad_value("geoNear must be top-level expr")),
            _ => Err(Error::bad_value("Too many geoNear expressions")),
        }
    }

    /// The `$near` of the filter.
    pub fn near(&self) -> Option<&Arc<Near>> {
        let conjuncts = match &self.root {
            Node::And(nodes) => nodes.as_slice(),
            other => std::slice::from_ref(other),
        };
        conjuncts.iter().find_map(|node| if let Node::Near(near) = node { Some(near) } else { None })
    }

    fn of(root: Node, context: &Context) -> Result<Filter> {
        let root = root.optimise(&context.collation);
        stop::ended()?;
        Ok(Filter::from_root(root, &context.collation))
    }

    /// A filter of parts of another filter's tree, and with its collation.
    pub fn from_root(root: Node, collation: &Collation) -> Filter {
        Filter { root, collation: collation.clone(), _memory: None }
    }

    /// `{}` in a statement with this collation.
    pub fn everything(collation: &Collation) -> Filter {
        Filter::from_root(Node::And(Vec::new()), collation)
    }

    /// A filter for single values, as `$pull` and array filters use it: `{ $gt: 5 }` without a field name.
    pub fn parse_operators(operators: Doc, context: &Context) -> Result<Filter> {
        Filter::of(parse::Parser::new(context).operators("", operators)?, context)
    }

    /// The predicate of a projection `{ field: { $elemMatch: operand } }`.
    pub(crate) fn elem_match(operand: ValueRef, context: &Context) -> Result<Filter> {
        Filter::of(array::parse_elem_match(&mut parse::Parser::new(context), Path::new(""), operand)?, context)
    }

    /// The first element of an array that an `$elemMatch` accepts.
    pub(crate) fn first_match<'a>(&self, value: Option<ValueRef<'a>>) -> Result<Option<ValueRef<'a>>> {
        let mut state = State::new(&self.collation);
        let matched = self.root.matches_value(value, &mut state);
        match (state.error, value) {
            (Some(error), _) => Err(error),
            (None, Some(ValueRef::Array(array))) if matched => Ok(state.position.and_then(|at| array.get(at))),
            _ => Ok(None),
        }
    }

    /// The tree, simplified: no `And` directly inside an `And`, no branch alone in an `And` or `Or`. `And(vec![])` matches everything.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Returns the collation of its strings.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// Returns true if the filter was `{}` or simplifies to it.
    pub fn matches_everything(&self) -> bool {
        matches!(&self.root, Node::And(branches) if branches.is_empty()) || matches!(self.root, Node::AlwaysTrue)
    }

    pub fn matches<'d>(&self, input: impl Into<Input<'d>>) -> Result<bool> {
        Ok(self.matches_with_position(input)?.is_some())
    }

    /// `None` when the document does not match.
    pub fn matches_with_position<'d>(&self, input: impl Into<Input<'d>>) -> Result<Option<Matched>> {
        let Input { doc, metadata } = input.into();
        let mut state = State { metadata, ..State::new(&self.collation) };
        let matched = self.root.matches_document(doc, &mut state);
        match state.error {
            Some(error) => Err(error),
            None => Ok(matched.then_some(Matched { position: state.position })),
        }
    }

    /// Applies the predicates to one value, whatever their paths say (see [`Filter::parse_operators`]).
    pub fn matches_value(&self, value: ValueRef) -> Result<bool> {
        let mut state = State::new(&self.collation);
        let matched = self.root.matches_value(Some(value), &mut state);
        state.error.map_or(Ok(matched), Err)
    }
}
