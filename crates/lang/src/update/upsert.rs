//! The document an upsert inserts: what the filter says must be equal, then the update.
//!
//! Fields of the filter come first, in the order of their paths. Only predicates that hold for every match count:
//! equalities at the top and inside `$and`.

use std::{collections::BTreeMap, ops::Bound};

use arbor_bson::{Doc, DocBuf, ObjectId, ValueRef, compare};

use super::{
    Form,
    replacement::{id_altered, with_id},
    slot::{Fields, Slot},
};
use crate::{
    Code, Error, Filter, Result,
    matcher::{Compare, Node},
    stop::tick,
    text,
};

pub(super) fn new_document(form: &Form, filter: &Filter, generate_id: impl FnOnce() -> ObjectId) -> Result<DocBuf> {
    let new = match form {
        Form::Operators(operators) => {
            let start = equalities_as_doc(filter)?;
            operators.apply_to_new(start.as_doc())?.unwrap_or(start)
        }
        Form::Pipeline(pipeline) => {
            let start = equalities_as_doc(filter)?;
            let new = pipeline.apply_to_new(start.as_doc())?;
            keep_id(start.get("_id"), new.as_doc())?.unwrap_or(new)
        }
        Form::Replacement(replacement) => {
            let mut equalities = BTreeMap::new();
            collect_id(filter.root(), &mut equalities)?;
            let id = equalities.get("_id").copied();
            keep_id(id, replacement.as_doc())?.unwrap_or_else(|| replacement.clone())
        }
    };
    let id = new.get("_id").map(|id| id.to_value());
    match id {
        Some(id) => {
            check_id(id.as_ref())?;
            Ok(with_id(id.as_ref(), new.as_doc()))
        }
        None => Ok(with_id(ValueRef::ObjectId(generate_id()), new.as_doc())),
    }
}

/// Gives the document the `_id` of the filter. Errors: it has another.
fn keep_id(id: Option<ValueRef>, new: Doc) -> Result<Option<DocBuf>> {
    match (id, new.get("_id")) {
        (Some(id), None) => Ok(Some(with_id(id, new))),
        (Some(id), Some(other)) if !compare(id, other).is_eq() => Err(id_altered(other)),
        _ => Ok(None),
    }
}

fn check_id(id: ValueRef) -> Result<()> {
    match id {
        ValueRef::Array(_) | ValueRef::Regex { .. } | ValueRef::Undefined => {
            let message = format!("The '_id' value cannot be of type {}", text::type_alias(id.ty()));
            Err(Error::new(Code::INVALID_ID_FIELD, message))
        }
        _ => Ok(()),
    }
}

type Equalities<'f> = BTreeMap<&'f str, ValueRef<'f>>;

fn equalities_as_doc(filter: &Filter) -> Result<DocBuf> {
    let mut equalities = Equalities::new();
    collect(filter.root(), &mut equalities)?;
    let mut root = Slot::Document(Fields::default());
    for (path, value) in equalities {
        set(&mut root, path, value);
    }
    Ok(root.to_doc(64))
}

fn collect<'f>(node: &'f Node, equalities: &mut Equalities<'f>) -> Result<()> {
    match node {
        Node::And(branches) => branches.iter().try_for_each(|branch| collect(branch, equalities)),
        Node::Compare { path, op: Compare::Eq, value } => add(equalities, path.as_str(), value.as_ref()),
        _ => Ok(()),
    }
}

fn add<'f>(equalities: &mut Equalities<'f>, path: &'f str, value: ValueRef<'f>) -> Result<()> {
    tick()?;
    let problem = if equalities.contains_key(path) {
        Some(format!("path '{path}' is matched twice"))
    } else {
        let both = |outer: &str, inner: &str| format!("both paths '{outer}' and '{inner}' are matched");
        let outer = path.match_indices('.').find_map(|(dot, _)| equalities.get_key_value(path.get(..dot)?));
        outer.map(|(outer, _)| both(outer, path)).or_else(|| inside(equalities, path).map(|inner| both(path, inner)))
    };
    match problem {
        Some(problem) => {
            let message = format!("cannot infer query fields to set, {problem}");
            Err(Error::new(Code::NOT_SINGLE_VALUE_FIELD, message))
        }
        None => {
            equalities.insert(path, value);
            Ok(())
        }
    }
}

/// A path inside the one given.
fn inside<'f>(equalities: &Equalities<'f>, outer: &str) -> Option<&'f str> {
    let begin = format!("{outer}.");
    let (path, _) = equalities.range::<str, _>((Bound::Included(begin.as_str()), Bound::Unbounded)).next()?;
    path.starts_with(&begin).then_some(*path)
}

/// For a replacement only `_id` counts, and it must be given whole.
fn collect_id<'f>(node: &'f Node, equalities: &mut Equalities<'f>) -> Result<()> {
    match node {
        Node::And(branches) => branches.iter().try_for_each(|branch| collect_id(branch, equalities)),
        Node::Compare { path, op: Compare::Eq, value } if path.head() == "_id" => match path.components().len() {
            1 => add(equalities, path.as_str(), value.as_ref()),
            _ => {
                let message =
                    format!("field at '_id' must be exactly specified, field at sub-path '{}' found", path.as_str());
                Err(Error::new(Code::NOT_EXACT_VALUE_FIELD, message))
            }
        },
        _ => Ok(()),
    }
}

/// Requires paths of which none is inside another.
fn set<'f>(root: &mut Slot<'f>, path: &'f str, value: ValueRef<'f>) {
    let mut slot = root;
    for name in path.split('.') {
        let Slot::Document(fields) = slot else { return };
        let known = fields.find(name);
        let at = known.unwrap_or_else(|| fields.push(name.into(), Slot::Document(Fields::default())));
        let Some(field) = fields.get_mut(at) else { return };
        slot = field;
    }
    *slot = Slot::Raw(value);
}
