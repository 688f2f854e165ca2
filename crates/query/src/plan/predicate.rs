//! Predicates on single paths, extracted from a filter's tree for the planner.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arbor_lang::geo::GeoTest;
use arbor_lang::matcher::{Compare, Node};
use arbor_lang::{Collation, Filter, stop};

use super::interval::Intervals;
use super::texts::Texts;
use super::value_bounds::{self, Bounds, Exact};

/// One path and the values that every matching document has there.
#[derive(Clone, Debug)]
pub(super) struct Predicate {
    pub path: String,
    pub bounds: Bounds,
    /// Which of the filter's conjuncts it was read from.
    pub conjunct: usize,
    /// It is all that the conjunct says.
    pub whole: bool,
    /// The innermost `$elemMatch` around it.
    pub element: Option<Element>,
    /// A test of places, for components that hold cells. The bounds are those of other components.
    pub geo: Option<Arc<GeoTest>>,
}

impl Predicate {
    /// Every document that matches has the field. Below an array `{ $ne: null }` is true of elements that could not have
    /// the field: `{ "a.b": { $ne: null } }` of `{ a: [1] }`.
    pub(super) fn proves_field(&self) -> bool {
        self.bounds.needs_field && !(self.bounds.single_key_only && self.path.contains('.'))
    }
}

/// One `$elemMatch`: its predicates hold for one and the same element of the array at `path`.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub id: usize,
    pub path: String,
}

/// Further predicates are left to the filter: bounds are as right without it, and the planner goes over all of this for each index.
const PREDICATES_MAX: usize = 4096;

/// The conjuncts of a filter: the parts that must all be true.
pub(crate) fn conjuncts(root: &Node) -> &[Node] {
    match root {
        Node::And(nodes) => nodes,
        other => std::slice::from_ref(other),
    }
}

/// `texts`: how the index that they are for sees strings.
pub(super) fn predicates(root: &Node, texts: Texts<'_>) -> Vec<Predicate> {
    let mut collector = Collector { texts, found: Vec::new(), conjunct: 0, elements: 0 };
    for (conjunct, node) in conjuncts(root).iter().enumerate() {
        collector.conjunct = conjunct;
        collector.collect(node, &Place::default());
    }
    collector.found
}

/// Position of a node in nested `$elemMatch`es.
#[derive(Clone, Default)]
struct Place {
    prefix: String,
    element: Option<Element>,
    /// Inside something that says more than its parts.
    partial: bool,
}

impl Place {
    fn join(&self, path: &str) -> String {
        match (self.prefix.is_empty(), path.is_empty()) {
            (true, _) => path.to_owned(),
            (_, true) => self.prefix.clone(),
            _ => format!("{}.{path}", self.prefix),
        }
    }

    fn within(&self, path: &str, id: usize) -> Place {
        let prefix = self.join(path);
        Place { element: Some(Element { id, path: prefix.clone() }), prefix, partial: true }
    }
}

/// The predicates of one filter as indexes of different collations see them, made once for each.
pub(super) struct Readings<'f> {
    filter: &'f Filter,
    made: RefCell<Vec<(Collation, Rc<[Predicate]>)>>,
}

impl<'f> Readings<'f> {
    pub(super) fn new(filter: &'f Filter) -> Readings<'f> {
        Readings { filter, made: RefCell::default() }
    }

    pub(super) fn of(&self, index: &Collation) -> Rc<[Predicate]> {
        let mut made = self.made.borrow_mut();
        if let Some((_, known)) = made.iter().find(|(known, _)| known == index) {
            return known.clone();
        }
        let new: Rc<[Predicate]> = predicates(self.filter.root(), Texts::of(index, self.filter.collation())).into();
        made.push((index.clone(), new.clone()));
        new
    }
}

struct Collector<'t> {
    texts: Texts<'t>,
    found: Vec<Predicate>,
    conjunct: usize,
    elements: usize,
}

impl Collector<'_> {
    fn collect(&mut self, node: &Node, place: &Place) {
        if self.found.len() >= PREDICATES_MAX || stop::tick().is_err() {
            return;
        }
        match node {
            Node::And(nodes) => {
                let place = Place { partial: true, ..place.clone() };
                nodes.iter().for_each(|node| self.collect(node, &place));
            }
            Node::ElemMatchObject { path, inner } => {
                self.elements += 1;
                let inside = place.within(path.as_str(), self.elements);
                self.add(&inside.prefix.clone(), Bounds::present(), &Place { element: None, ..inside.clone() });
                self.collect(inner, &inside);
            }
            Node::ElemMatchValue { path, inner } => {
                self.elements += 1;
                self.collect(inner, &place.within(path.as_str(), self.elements));
            }
            Node::Or(branches) => {
                if let Some((path, bounds)) = union_on_one_path(branches, self.texts) {
                    self.add(&place.join(path), bounds, place);
                }
            }
            Node::Nor(branches) => {
                let place = Place { partial: place.partial || branches.len() > 1, ..place.clone() };
                for branch in branches {
                    if let Some((path, bounds)) = negation(branch, self.texts) {
                        self.add(&place.join(path), bounds, &place);
                    }
                }
            }
            Node::Geo { path, test } => {
                self.add(&place.join(path.as_str()), Bounds::present(), place);
                if let Some(own) = self.found.last_mut() {
                    own.geo = Some(test.clone());
                }
            }
            other => {
                if let Some((path, bounds)) = of_leaf(other, self.texts) {
                    self.add(&place.join(path), bounds, place);
                }
            }
        }
    }

    fn add(&mut self, path: &str, mut bounds: Bounds, place: &Place) {
        if place.element.is_some() {
            bounds.exact = Exact::Never;
        }
        if path.split('.').any(|name| name.bytes().all(|b| b.is_ascii_digit())) {
            // a number in a path is a position in an array or a name: the filter tries both, a key is of one
            bounds.exact = Exact::Never;
            bounds.single_key_only |= !bounds.needs_field;
        }
        self.found.push(Predicate {
            path: path.to_owned(),
            bounds,
            conjunct: self.conjunct,
            whole: !place.partial,
            element: place.element.clone(),
            geo: None,
        });
    }
}

fn of_leaf<'n>(node: &'n Node, texts: Texts<'_>) -> Option<(&'n str, Bounds)> {
    let bounds = match node {
        Node::Compare { op, value, .. } => value_bounds::of_compare(*op, value, texts)?,
        Node::In(membership) => value_bounds::of_in(membership, texts)?,
        Node::Regex { regex, .. } => value_bounds::of_regex(regex, texts),
        Node::Exists { .. } | Node::Geo { .. } => Bounds::present(),
        Node::Mod { .. } => value_bounds::of_numbers(),
        Node::Not(inner) => return negation(inner, texts),
        _ => return None,
    };
    Some((node.path()?.as_str(), bounds))
}

fn negation<'n>(node: &'n Node, texts: Texts<'_>) -> Option<(&'n str, Bounds)> {
    let bounds = match node {
        Node::Exists { .. } => Bounds::absent(),
        Node::Compare { op: Compare::Eq | Compare::Lte | Compare::Gte, value: arbor_bson::Value::Null, .. } => {
            value_bounds::complement_of_null(None)?
        }
        Node::In(membership) if membership.regexes.is_empty() => {
            let mut others = membership.clone();
            others.values.retain(|value| !matches!(value, arbor_bson::Value::Null));
            let bounds = value_bounds::of_in(&others, texts)?;
            if others.values.len() < membership.values.len() {
                value_bounds::complement_of_null(Some(&bounds))?
            } else {
                value_bounds::complement(&bounds)?
            }
        }
        Node::Compare { op, value, .. } => value_bounds::complement(&value_bounds::of_compare(*op, value, texts)?)?,
        _ => return None,
    };
    Some((node.path()?.as_str(), bounds))
}

/// `{ $or: [ { a: 1 }, { a: { $gt: 5 } } ] }` says as much about `a` as one predicate does.
fn union_on_one_path<'n>(branches: &'n [Node], texts: Texts<'_>) -> Option<(&'n str, Bounds)> {
    let mut branches = branches.iter().map(|branch| of_leaf(branch, texts));
    let (path, mut all) = branches.next()??;
    let mut intervals = all.intervals.as_slice().to_vec();
    for branch in branches {
        stop::tick().ok()?;
        let (other, bounds) = branch?;
        if other != path {
            return None;
        }
        intervals.extend_from_slice(bounds.intervals.as_slice());
        all.exact = all.exact.min(bounds.exact);
        all.needs_field &= bounds.needs_field;
        all.single_key_only |= bounds.single_key_only;
    }
    all.intervals = Intervals::of(intervals);
    Some((path, all))
}
