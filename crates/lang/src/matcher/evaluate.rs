//! Whether a document matches: the hot path of collection scans. Nothing is allocated per document, apart from what
//! `$expr` builds.

use arbor_bson::{Doc, ValueRef};

use super::{Node, array, compare, modulo};
use crate::path::Leaf;
use crate::stop::tick;
use crate::{Collation, Error, Input, Metadata, Path, Result};

/// What is learnt on the way. An error (a regular expression out of steps, an expression) ends the match.
pub(super) struct State<'m> {
    pub metadata: Option<&'m Metadata>,
    pub position: Option<usize>,
    pub error: Option<Error>,
    pub collation: &'m Collation,
}

impl<'m> State<'m> {
    pub fn new(collation: &'m Collation) -> State<'m> {
        State { metadata: None, position: None, error: None, collation }
    }

    fn fail<T: Default>(&mut self, result: Result<T>) -> T {
        result.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            T::default()
        })
    }

    /// One step. An error makes the outcome nobody's business: whoever looks for a match may take this for one.
    fn goes_on(&mut self) -> bool {
        if self.error.is_none() {
            self.error = tick().err();
        }
        self.error.is_none()
    }
}

impl Node {
    pub(super) fn matches_document(&self, doc: Doc, state: &mut State) -> bool {
        match self {
            Node::And(nodes) => nodes.iter().all(|node| node.matches_document(doc, state)),
            Node::Or(nodes) => nodes.iter().any(|node| node.matches_document(doc, state)),
            Node::Nor(nodes) => without_position(state, |s| !nodes.iter().any(|node| node.matches_document(doc, s))),
            Node::Not(node) => without_position(state, |s| !node.matches_document(doc, s)),
            Node::Compare { path, .. } | Node::Type { path, .. } | Node::Regex { path, .. } => {
                self.matches_path(path, Leaf::Expand, doc, state)
            }
            Node::Mod { path, .. } | Node::Bits { path, .. } => self.matches_path(path, Leaf::Expand, doc, state),
            Node::In(membership) => self.matches_path(&membership.path, Leaf::Expand, doc, state),
            Node::Exists { path }
            | Node::Size { path, .. }
            | Node::ElemMatchObject { path, .. }
            | Node::ElemMatchValue { path, .. }
            | Node::Geo { path, .. } => self.matches_path(path, Leaf::Whole, doc, state),
            Node::Near(near) => self.matches_path(&near.path, Leaf::Whole, doc, state),
            Node::Expr(expression) => {
                let result = expression.eval_bool(Input::new(doc, state.metadata));
                state.fail(result)
            }
            Node::Schema(schema) => {
                let result = schema.matches(ValueRef::Document(doc));
                state.fail(result)
            }
            Node::Text(text) => {
                let result = text.matches(doc);
                state.fail(result)
            }
            Node::SampleRate(rate) => rand::random::<f64>() < *rate,
            Node::AlwaysTrue => true,
            Node::AlwaysFalse => false,
        }
    }

    fn matches_path(&self, path: &Path, leaf: Leaf, doc: Doc, state: &mut State) -> bool {
        path.visit(doc, leaf, &mut |visit| {
            if !state.goes_on() {
                return true;
            }
            let hit = self.matches_value(visit.value, state);
            if hit && visit.index.is_some() {
                state.position = visit.index;
            }
            hit
        })
    }

    /// The predicate applied to one value, whatever its path says. `None` is a missing field.
    pub(super) fn matches_value(&self, value: Option<ValueRef>, state: &mut State) -> bool {
        match self {
            Node::Compare { op, value: operand, .. } => compare::holds(*op, value, operand, state.collation),
            Node::In(membership) => {
                let result = membership.contains(value, state.collation);
                state.fail(result)
            }
            Node::Exists { .. } => value.is_some(),
            Node::Type { types, .. } => value.is_some_and(|value| types.contains(value.ty())),
            Node::Regex { regex, .. } => {
                let result = value.map_or(Ok(false), |value| regex.matches(value));
                state.fail(result)
            }
            Node::Mod { divisor, remainder, .. } => value.is_some_and(|v| modulo::holds(v, *divisor, *remainder)),
            Node::Bits { test, .. } => value.is_some_and(|value| test.matches(value)),
            Node::Size { size, .. } => array::has_size(value, *size),
            Node::Geo { test, .. } => value.is_some_and(|value| test.matches(value)),
            Node::Near(near) => value.is_some_and(|value| near.matches(value)),
            Node::ElemMatchObject { inner, .. } => any_element(value, state, |element, state| match element {
                ValueRef::Document(doc) => inner.matches_document(doc, state),
                ValueRef::Array(array) => inner.matches_document(array.as_doc(), state),
                _ => false,
            }),
            Node::ElemMatchValue { inner, .. } => {
                any_element(value, state, |element, state| inner.matches_value(Some(element), state))
            }
            Node::And(nodes) => nodes.iter().all(|node| node.matches_value(value, state)),
            Node::Or(nodes) => nodes.iter().any(|node| node.matches_value(value, state)),
            Node::Nor(nodes) => !nodes.iter().any(|node| node.matches_value(value, state)),
            Node::Not(node) => without_position(state, |state| !node.matches_value(value, state)),
            Node::Schema(schema) => {
                let result = value.map_or(Ok(false), |value| schema.matches(value));
                state.fail(result)
            }
            Node::Expr(_) | Node::Text(_) | Node::AlwaysFalse => false,
            Node::SampleRate(_) | Node::AlwaysTrue => true,
        }
    }
}

/// A negated match says nothing about positions.
fn without_position(state: &mut State, test: impl FnOnce(&mut State) -> bool) -> bool {
    let position = state.position;
    let result = test(state);
    state.position = position;
    result
}

fn any_element(value: Option<ValueRef>, state: &mut State, mut test: impl FnMut(ValueRef, &mut State) -> bool) -> bool {
    let Some(ValueRef::Array(array)) = value else { return false };
    let found =
        array.iter().position(|element| !state.goes_on() || without_position(state, |state| test(element, state)));
    if found.is_some() {
        state.position = found;
    }
    found.is_some()
}
