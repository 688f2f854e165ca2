//! Evaluation of a filter for a document: the hot path of collection scans. Nothing is allocated per document, apart from what
//! `$expr` builds.

use arbor_bson::{Doc, ValueRef};

use super::{In, Node, array, compare, equalities, modulo};
use crate::fields::Fields;
use crate::path::Leaf;
use crate::stop::{ended, tick};
use crate::{Collation, Error, Input, Metadata, Path, Result};

/// State of one match. An error (a regular expression out of steps, an expression) ends the match.
pub(super) struct State<'m> {
    pub metadata: Option<&'m Metadata>,
    pub position: Option<usize>,
    pub error: Option<Error>,
    pub collation: &'m Collation,
}

impl<'m> State<'m> {
    pub(super) fn new(collation: &'m Collation) -> State<'m> {
        State { metadata: None, position: None, error: None, collation }
    }

    pub(super) fn fail<T: Default>(&mut self, result: Result<T>) -> T {
        result.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            T::default()
        })
    }

    /// Counts one step and returns true if the match is to continue. After an error the outcome is ignored: any value may be returned.
    pub(super) fn continues(&mut self) -> bool {
        if self.error.is_none() {
            self.error = tick().err();
        }
        self.error.is_none()
    }
}

/// Returns true if each of the predicates evaluates to `hold`.
fn all(nodes: &[Node], doc: Doc, state: &mut State, hold: bool) -> bool {
    if nodes.len() < equalities::RUN_MIN {
        return nodes.iter().all(|node| node.matches_document(doc, state) == hold);
    }
    let fields = match Fields::of(doc, nodes.len()) {
        Ok(fields) => fields,
        Err(error) => return state.fail(Err(error)),
    };
    let in_turn = |nodes: &[Node], state: &mut State| {
        nodes.iter().all(|node| match node.place() {
            Some((path, leaf)) => node.matches_path(path, leaf, fields.get(path.head()), state) == hold,
            None => node.matches_document(doc, state) == hold,
        })
    };
    nodes.chunk_by(equalities::belong_together).all(|run| match equalities::path_of(run).filter(|_| hold) {
        Some(path) => equalities::all_hold(path, run, fields.get(path.head()), state),
        None => in_turn(run, state),
    })
}

impl Node {
    pub(super) fn matches_document(&self, doc: Doc, state: &mut State) -> bool {
        match self {
            Node::And(nodes) => all(nodes, doc, state, true),
            Node::Or(nodes) => !all(nodes, doc, state, false),
            Node::Nor(nodes) => without_position(state, |s| all(nodes, doc, s, false)),
            Node::Not(node) => without_position(state, |s| !node.matches_document(doc, s)),
            Node::Compare { .. }
            | Node::Type { .. }
            | Node::Regex { .. }
            | Node::Mod { .. }
            | Node::Bits { .. }
            | Node::In(_)
            | Node::Exists { .. }
            | Node::Size { .. }
            | Node::ElemMatchObject { .. }
            | Node::ElemMatchValue { .. }
            | Node::Geo { .. }
            | Node::Near(_) => self.place().is_some_and(|(path, leaf)| {
                let head = doc.get(path.head());
                self.matches_path(path, leaf, head, state)
            }),
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
            Node::Outside(ranges) => !ranges.contain(doc),
            Node::SampleRate(rate) => rand::random::<f64>() < *rate,
            Node::AlwaysTrue => true,
            Node::AlwaysFalse => false,
        }
    }

    /// Returns the path that the predicate reads, if it reads exactly one.
    fn place(&self) -> Option<(&Path, Leaf)> {
        match self {
            Node::Compare { path, .. }
            | Node::Type { path, .. }
            | Node::Regex { path, .. }
            | Node::Mod { path, .. }
            | Node::Bits { path, .. }
            | Node::In(In { path, .. }) => Some((path, Leaf::Expand)),
            Node::Exists { path }
            | Node::Size { path, .. }
            | Node::ElemMatchObject { path, .. }
            | Node::ElemMatchValue { path, .. }
            | Node::Geo { path, .. } => Some((path, Leaf::Whole)),
            Node::Near(near) => Some((&near.path, Leaf::Whole)),
            _ => None,
        }
    }

    /// `head`: the field that the path begins with.
    pub(super) fn matches_path(&self, path: &Path, leaf: Leaf, head: Option<ValueRef>, state: &mut State) -> bool {
        path.visit_from(head, leaf, &mut |visit| {
            if !state.continues() {
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
            Node::Geo { test, .. } => {
                let matches = value.is_some_and(|value| test.matches(value));
                state.fail(ended().map(|()| matches))
            }
            Node::Near(near) => {
                let matches = value.is_some_and(|value| near.matches(value));
                state.fail(ended().map(|()| matches))
            }
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
            Node::Expr(_) | Node::Text(_) | Node::Outside(_) | Node::AlwaysFalse => false,
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
        array.iter().position(|element| !state.continues() || without_position(state, |state| test(element, state)));
    if found.is_some() {
        state.position = found;
    }
    found.is_some()
}
