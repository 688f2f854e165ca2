//! The paths of an update as one tree, so that each document and array is opened once.

use std::collections::BTreeMap;

use super::{
    op::Op,
    order::FieldName,
    path::{Step, UpdatePath},
};
use crate::{Code, Error, Result};

#[derive(Clone, Debug)]
pub(super) enum Tree {
    Leaf(Op),
    /// Fields of a document or positions of an array; the positional `$` is the name "$".
    Fields(BTreeMap<FieldName, Tree>),
    /// Elements of an array by identifier; the empty one selects all.
    Elements(BTreeMap<Box<str>, Tree>),
}

/// The name of the positional step in a map of fields.
pub(super) const POSITIONAL: &str = "$";

impl Tree {
    pub(super) fn new() -> Tree {
        Tree::Fields(BTreeMap::new())
    }

    pub(super) fn ops(&self) -> Box<dyn Iterator<Item = &Op> + '_> {
        match self {
            Tree::Leaf(op) => Box::new(std::iter::once(op)),
            Tree::Fields(fields) => Box::new(fields.values().flat_map(Tree::ops)),
            Tree::Elements(elements) => Box::new(elements.values().flat_map(Tree::ops)),
        }
    }

    /// Adds an operator at a path. Errors: a conflict (U2) with a path that is there already.
    pub(super) fn insert(&mut self, path: &UpdatePath, op: Op) -> Result<()> {
        let mut node = self;
        let steps = path.steps();
        for (at, step) in steps.iter().enumerate() {
            let next = steps.get(at + 1);
            let child = match (node, step) {
                (Tree::Fields(map), Step::Field(name)) => child(map, FieldName(name.clone()), next),
                (Tree::Fields(map), Step::Positional) => child(map, FieldName(POSITIONAL.into()), next),
                (Tree::Elements(map), Step::Elements(identifier)) => child(map, identifier.clone(), next),
                _ => return Err(conflict(path, at)),
            };
            match (child, next) {
                (Child::New(slot), None) => {
                    *slot = Tree::Leaf(op);
                    return Ok(());
                }
                (Child::Known(_), None) | (Child::Known(Tree::Leaf(_)), Some(_)) => return Err(conflict(path, at + 1)),
                (Child::New(inner) | Child::Known(inner), Some(_)) => node = inner,
            }
        }
        Ok(())
    }
}

enum Child<'t> {
    New(&'t mut Tree),
    Known(&'t mut Tree),
}

/// The child of that name; a new one is made fit for the step that follows.
fn child<'t, K: Ord>(map: &'t mut BTreeMap<K, Tree>, name: K, next: Option<&Step>) -> Child<'t> {
    use std::collections::btree_map::Entry;
    match map.entry(name) {
        Entry::Occupied(known) => Child::Known(known.into_mut()),
        Entry::Vacant(place) => Child::New(place.insert(match next {
            Some(Step::Elements(_)) => Tree::Elements(BTreeMap::new()),
            _ => Tree::new(),
        })),
    }
}

fn conflict(path: &UpdatePath, steps: usize) -> Error {
    let message = format!("Updating the path '{}' would create a conflict at '{}'", path.as_str(), path.prefix(steps));
    Error::new(Code::CONFLICTING_UPDATE_OPERATORS, message)
}
