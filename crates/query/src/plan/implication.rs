//! Does a query imply the filter of a partial index? Only then does the index hold every document that matches.
//!
//! The proof is made with bounds: B1 says that a document that matches the query has a key inside the query's intervals,
//! B2 that one with a key inside exact intervals matches the filter ([`super::value_bounds`]). So intervals of the query
//! inside those of the filter, on the same path, are proof. What cannot be proven is taken for not implied.

use arbor_lang::Filter;
use arbor_lang::matcher::Node;

use super::predicate::{Predicate, conjuncts, predicates};
use super::texts::Texts;
use super::value_bounds::Exact;

/// `true`: every document that matches `query` matches `filter`.
pub(super) fn implies(query: &Filter, filter: &Filter) -> bool {
    nodes_imply(query.root(), filter.root(), Texts::of(filter.collation(), query.collation()))
}

/// Requires simplified trees. `texts`: relation of the query's collation to the filter's.
fn nodes_imply(query: &Node, filter: &Node, texts: Texts<'_>) -> bool {
    match filter {
        Node::AlwaysTrue => true,
        Node::And(parts) => parts.iter().all(|part| nodes_imply(query, part, texts)),
        _ => of_query(query, filter, texts),
    }
}

/// `filter` is no conjunction.
fn of_query(query: &Node, filter: &Node, texts: Texts<'_>) -> bool {
    let own = predicates(query, texts);
    if of_predicates(&own, filter, texts) {
        return true;
    }
    if let Node::Or(branches) = filter
        && branches.iter().any(|branch| nodes_imply(query, branch, texts))
    {
        return true;
    }
    conjuncts(query).iter().any(|part| match part {
        Node::Or(branches) => branches.iter().all(|branch| nodes_imply(branch, filter, texts)),
        Node::Type { .. } => same(part, filter) || is_existence(filter, part),
        part => (texts.is_same() || !compares(part)) && same(part, filter),
    })
}

/// Returns true if a predicate of the query is contained in the filter.
fn of_predicates(query: &[Predicate], filter: &Node, texts: Texts<'_>) -> bool {
    if let Node::Exists { path } = filter {
        return query.iter().any(|own| own.path == path.as_str() && own.proves_field());
    }
    let required = predicates(filter, texts);
    let [required] = required.as_slice() else { return false };
    if !required.whole || required.bounds.exact != Exact::Always {
        return false;
    }
    let outside = required.bounds.intervals.complement();
    query.iter().any(|own| {
        let inside = own.bounds.intervals.intersect(&outside).as_slice().is_empty();
        own.path == required.path && !own.bounds.single_key_only && inside
    })
}

/// Returns true if `filter` is `$exists` of the field that `part` checks the type of: a value with a type exists.
fn is_existence(filter: &Node, part: &Node) -> bool {
    matches!((filter, part), (Node::Exists { path }, Node::Type { path: own, .. }) if path.as_str() == own.as_str())
}

/// Returns true if the node may depend on a collation.
fn compares(node: &Node) -> bool {
    !matches!(node, Node::Exists { .. } | Node::Type { .. } | Node::Regex { .. } | Node::Mod { .. } | Node::Size { .. })
}

/// Returns true if both are the same predicate; the debug form of a node is complete.
fn same(part: &Node, filter: &Node) -> bool {
    std::mem::discriminant(part) == std::mem::discriminant(filter) && format!("{part:?}") == format!("{filter:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::{ArrayBuf, DocBuf, Value};
    use arbor_lang::Context;

    fn on(path: &str, operator: &str, value: impl Into<Value>) -> DocBuf {
        DocBuf::new().with(path, &DocBuf::new().with(operator, &value.into()))
    }

    fn list(docs: &[DocBuf]) -> Value {
        Value::Array(docs.iter().collect::<ArrayBuf>())
    }

    fn numbers(values: &[i32]) -> Value {
        Value::Array(values.iter().copied().collect::<ArrayBuf>())
    }

    fn both(first: DocBuf, second: DocBuf) -> DocBuf {
        first.as_doc().iter().chain(second.as_doc()).collect()
    }

    #[track_caller]
    fn check(query: &DocBuf, filter: &DocBuf, implied: bool) {
        let parse = |doc: &DocBuf| Filter::parse(doc.as_doc(), &Context::new(0)).unwrap();
        assert_eq!(implies(&parse(query), &parse(filter)), implied, "{query:?} => {filter:?}");
    }

    #[test]
    fn ranges_and_values_inside_the_filter_imply_it() {
        let above_five = on("a", "$gt", 5);
        for (query, implied) in [
            (on("a", "$gt", 5), true),
            (on("a", "$gte", 6), true),
            (on("a", "$gte", 5), false),
            (on("a", "$eq", 7), true),
            (on("a", "$eq", 5), false),
            (on("a", "$eq", "x"), false),
            (on("a", "$in", numbers(&[6, 7])), true),
            (on("a", "$in", numbers(&[4, 7])), false),
            (on("a", "$lt", 9), false),
            (on("a", "$ne", 3), false),
            (on("a", "$exists", true), false),
            (on("b", "$gt", 5), false),
            (DocBuf::new(), false),
            (both(on("b", "$lt", 1), on("a", "$gt", 9)), true),
            (DocBuf::new().with("$or", &list(&[on("a", "$eq", 8), on("a", "$gt", 20)])), true),
            (DocBuf::new().with("$or", &list(&[on("a", "$eq", 8), on("b", "$gt", 20)])), false),
            (on("a", "$elemMatch", DocBuf::new().with("$gt", 7i32)), true),
            (on("a", "$not", DocBuf::new().with("$lte", 7i32)), false),
        ] {
            check(&query, &above_five, implied);
        }
    }

    #[test]
    fn whatever_needs_the_field_implies_that_it_exists() {
        let exists = on("a", "$exists", true);
        for (query, implied) in [
            (on("a", "$eq", 5), true),
            (on("a", "$lt", "x"), true),
            (on("a", "$type", "int"), true),
            (on("a", "$regex", "^x"), true),
            (on("a", "$eq", Value::Null), false),
            (on("a", "$exists", false), false),
            (on("a", "$ne", Value::Null), true),
            (on("a", "$ne", 5), false),
            (on("a.b", "$eq", 5), false),
            (on("a", "$elemMatch", DocBuf::new().with("b", 7i32)), true),
        ] {
            check(&query, &exists, implied);
        }
    }

    #[test]
    fn conjunctions_and_alternatives() {
        // true of `{ a: [1] }`, which has no a.b
        check(&on("a.b", "$ne", Value::Null), &on("a.b", "$exists", true), false);
        let filter = both(on("a", "$gt", 5), on("b", "$eq", "open"));
        check(&both(on("a", "$eq", 9), on("b", "$eq", "open")), &filter, true);
        check(&on("a", "$eq", 9), &filter, false);
        let either = DocBuf::new().with("$or", &list(&[on("a", "$gt", 5), on("b", "$eq", "open")]));
        check(&on("b", "$eq", "open"), &either, true);
        check(&on("a", "$eq", 2), &either, false);
        check(&either, &either, true);
        check(&on("c", "$type", "string"), &on("c", "$type", "string"), true);
        check(&on("c", "$type", "int"), &on("c", "$type", "string"), false);
        check(&on("a", "$eq", 2), &DocBuf::new(), true);
    }
}
