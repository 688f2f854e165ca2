//! Runs of equalities on one path, as `$all` makes them: the values are sorted once, and each operand is searched.

use std::cmp::Ordering;

use arbor_bson::{Value, ValueRef};

use super::evaluate::State;
use super::{Compare, Node, holds};
use crate::path::{Leaf, Visit};
use crate::stop::sort_by;
use crate::{Collation, Path};

/// The operands of a shorter run scan the values.
pub(super) const RUN_MIN: usize = 32;

/// Operands that are tried before the values are sorted: most documents lack one of the first.
const TRIED_FIRST: usize = 4;

/// More values, 48 MB of visits, are not sorted.
const VALUES_MAX: usize = 1 << 20;

/// Returns true if both are equalities on one path: adjacent ones form a run.
pub(super) fn belong_together(a: &Node, b: &Node) -> bool {
    match (a, b) {
        (Node::Compare { path: a, op: Compare::Eq, .. }, Node::Compare { path: b, op: Compare::Eq, .. }) => a == b,
        _ => false,
    }
}

/// The path of a run that is long enough.
pub(super) fn path_of(run: &[Node]) -> Option<&Path> {
    run.first().and_then(Node::path).filter(|_| run.len() >= RUN_MIN)
}

/// Returns true if each equality of a run holds. `head` is the first field of the path.
pub(super) fn all_hold(path: &Path, equalities: &[Node], head: Option<ValueRef>, state: &mut State) -> bool {
    let (first, others) = equalities.split_at(TRIED_FIRST.min(equalities.len()));
    let in_turn =
        |nodes: &[Node], state: &mut State| nodes.iter().all(|node| node.matches_path(path, Leaf::Expand, head, state));
    if !in_turn(first, state) {
        return false;
    }
    match Values::of(path, head, state) {
        Some(values) => others.iter().all(|node| values.hold(node, state)),
        None => in_turn(others, state),
    }
}

/// The values at a path, sorted; equal ones in the order of the document.
struct Values<'d>(Vec<Visit<'d>>);

impl<'d> Values<'d> {
    /// `None`: there are too many, or the work is to stop.
    fn of(path: &Path, head: Option<ValueRef<'d>>, state: &mut State) -> Option<Values<'d>> {
        let mut visits: Vec<Visit<'d>> = Vec::new();
        let collation = state.collation;
        let cut_short = path.visit_from(head, Leaf::Expand, &mut |visit| {
            let again = visits.last().is_some_and(|last| order(last, &visit, collation).is_eq());
            if !again {
                visits.push(visit);
            }
            !state.continues() || visits.len() > VALUES_MAX
        });
        if cut_short {
            return None;
        }
        let sorted = sort_by(&mut visits, |a, b| order(a, b, collation));
        state.fail(sorted.map(|()| Some(Values(visits))))
    }

    /// Returns true if an equality holds for one of the values; its position in the document is noted.
    fn hold(&self, node: &Node, state: &mut State) -> bool {
        let Node::Compare { value: operand, .. } = node else { return false };
        if !state.continues() {
            return false;
        }
        let Some(found) = self.find(operand, state.collation) else { return false };
        if found.index.is_some() {
            state.position = found.index;
        }
        true
    }

    fn find(&self, operand: &Value, collation: &Collation) -> Option<&Visit<'d>> {
        let Values(visits) = self;
        let operand_value = operand.as_ref();
        let from = visits.partition_point(|visit| collation.compare(shown(visit), operand_value).is_lt());
        let equal = visits.iter().skip(from).take_while(|visit| collation.equal(shown(visit), operand_value));
        equal.into_iter().find(|visit| holds(Compare::Eq, visit.value, operand, collation))
    }
}

/// Sorts a missing value as null.
fn shown<'d>(visit: &Visit<'d>) -> ValueRef<'d> {
    visit.value.unwrap_or(ValueRef::Null)
}

fn order(a: &Visit, b: &Visit, collation: &Collation) -> Ordering {
    collation.compare(shown(a), shown(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Filter};
    use arbor_bson::{ArrayBuf, Doc, DocBuf};

    fn collations() -> [Collation; 2] {
        [
            Collation::simple(),
            Collation::parse(DocBuf::new().with("locale", "en").with("strength", 1).as_doc()).unwrap(),
        ]
    }

    /// More than are looked for one after the other, of all kinds.
    fn values() -> Vec<Value> {
        let mut values: Vec<Value> = (0..30).map(Value::Int32).collect();
        values.extend((0..10).map(|n| Value::Double(f64::from(n) + 0.5)));
        values.extend(["a", "A", "á", "b", ""].map(|text| Value::String(text.to_owned())));
        values.extend([Value::Null, Value::Bool(true), Value::Double(f64::NAN), Value::MinKey, Value::MaxKey]);
        values.push(Value::Array([1, 2].into_iter().collect()));
        values.push(Value::Document(DocBuf::new().with("b", 1)));
        values
    }

    fn all_of(operands: &[Value]) -> DocBuf {
        DocBuf::new().with("x", &DocBuf::new().with("$all", &operands.iter().collect::<ArrayBuf>()))
    }

    /// The outcome of the predicates one by one, and the last position that one of them found.
    fn one_by_one(operands: &[Value], doc: Doc, context: &Context) -> (bool, Option<usize>) {
        let mut position = None;
        for operand in operands {
            let filter = Filter::parse(DocBuf::new().with("x", &DocBuf::new().with("$eq", operand)).as_doc(), context);
            match filter.unwrap().matches_with_position(doc).unwrap() {
                None => return (false, None),
                Some(matched) => position = matched.position.or(position),
            }
        }
        (true, position)
    }

    #[test]
    fn a_run_says_what_its_predicates_say() {
        let all = values();
        for collation in collations() {
            let context = Context { collation, ..Context::new(0) };
            // all values, each of them missing, in two orders, with others among them
            for missing in 0..=all.len() {
                let present: Vec<&Value> =
                    all.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, v)| v).collect();
                for turned in [false, true] {
                    let order: Vec<&Value> =
                        if turned { present.iter().rev().copied().collect() } else { present.clone() };
                    let doc = DocBuf::new().with("x", &order.into_iter().collect::<ArrayBuf>());
                    let filter = Filter::parse(all_of(&all).as_doc(), &context).unwrap();
                    let found = filter.matches_with_position(doc.as_doc()).unwrap();
                    let found = (found.is_some(), found.and_then(|own| own.position));
                    assert_eq!(found, one_by_one(&all, doc.as_doc(), &context), "without {missing}, turned {turned}");
                }
            }
        }
    }

    #[test]
    fn missing_fields_are_null_and_arrays_are_entered() {
        let nulls = vec![Value::Null; 2 * RUN_MIN];
        let filter = Filter::parse(all_of(&nulls).as_doc(), &Context::new(0)).unwrap();
        let ones: ArrayBuf = [1].into_iter().collect();
        for (doc, expect) in
            [(DocBuf::new(), true), (DocBuf::new().with("x", 1), false), (DocBuf::new().with("x", &ones), false)]
        {
            assert_eq!(filter.matches(doc.as_doc()).unwrap(), expect, "{doc:?}");
        }
        let inner: Vec<DocBuf> = (0..100).map(|n| DocBuf::new().with("y", n)).collect();
        let doc = DocBuf::new().with("x", &inner.iter().collect::<ArrayBuf>());
        let all: ArrayBuf = (0..100).collect();
        let spec = |list: &ArrayBuf| DocBuf::new().with("x.y", &DocBuf::new().with("$all", list));
        let matched = |list: &ArrayBuf| {
            Filter::parse(spec(list).as_doc(), &Context::new(0)).unwrap().matches_with_position(doc.as_doc())
        };
        assert_eq!(matched(&all).unwrap().and_then(|own| own.position), Some(99));
        assert!(matched(&(1..101).collect()).unwrap().is_none());
    }
}
