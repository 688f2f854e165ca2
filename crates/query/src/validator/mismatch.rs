//! Why a document does not match a filter, in the layout of MongoDB's `errInfo.details`.

use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};
use arbor_lang::matcher::{Compare, Node};
use arbor_lang::path::{Leaf, Path};
use arbor_lang::{Collation, Filter, text};

use crate::Result;
use crate::explain::filter_doc;

/// Requires that the document does not match. `source` is the filter as the client wrote it.
pub(super) fn of_filter(filter: &Filter, source: Doc<'_>, doc: Doc<'_>) -> Result<DocBuf> {
    of_node(filter.root(), &Written { source, collation: filter.collation() }, doc)
}

/// Source of the nodes, as the client wrote it.
struct Written<'w> {
    source: Doc<'w>,
    collation: &'w Collation,
}

impl Written<'_> {
    fn matches(&self, node: &Node, doc: Doc<'_>) -> Result<bool> {
        Ok(Filter::from_root(node.clone(), self.collation).matches(doc)?)
    }
}

fn of_node(node: &Node, source: &Written<'_>, doc: Doc<'_>) -> Result<DocBuf> {
    let named = |name: &str| DocBuf::new().with("operatorName", name);
    Ok(match node {
        Node::Schema(schema) => schema.explain(doc)?,
        Node::And(nodes) => named("$and").with("clausesNotSatisfied", &clauses(nodes, false, source, doc)?),
        Node::Or(nodes) => named("$or").with("clausesNotSatisfied", &clauses(nodes, false, source, doc)?),
        Node::Nor(nodes) => named("$nor").with("clausesSatisfied", &clauses(nodes, true, source, doc)?),
        Node::Not(inner) => of_negation(inner, source, doc)?,
        Node::Expr(_) => {
            let mut specified_as = DocBuf::new();
            if let Some(expression) = source.source.get("$expr") {
                specified_as.append("$expr", expression);
            }
            let details = named("$expr").with("specifiedAs", &specified_as);
            details.with("reason", "expression did not match").with("expressionResult", false)
        }
        Node::AlwaysFalse => named("$alwaysFalse").with("reason", "expression always evaluates to false"),
        leaf => of_leaf(leaf, reason(leaf), &filter_doc::of_node(leaf), doc),
    })
}

/// The clauses that match, or those that do not.
fn clauses(nodes: &[Node], matching: bool, source: &Written<'_>, doc: Doc<'_>) -> Result<ArrayBuf> {
    let mut found = ArrayBuf::new();
    for (at, node) in nodes.iter().enumerate() {
        if source.matches(node, doc)? == matching {
            let details = match matching {
                true => of_negation(node, source, doc)?,
                false => of_node(node, source, doc)?,
            };
            found.push(&DocBuf::new().with("index", at as i32).with("details", &details));
        }
    }
    Ok(found)
}

/// Requires that `inner` matches and should not.
fn of_negation(inner: &Node, source: &Written<'_>, doc: Doc<'_>) -> Result<DocBuf> {
    let reason = match inner {
        Node::And(nodes) => {
            return Ok(DocBuf::new()
                .with("operatorName", "$and")
                .with("clausesSatisfied", &clauses(nodes, true, source, doc)?));
        }
        Node::Compare { .. } => "comparison succeeded",
        Node::In(_) => "matching value found in array",
        Node::Exists { .. } => "path does exist",
        Node::Type { .. } => "type did match",
        Node::Regex { .. } => "regular expression did match",
        Node::Size { .. } => "array length was equal to given size",
        _ => "child expression matched",
    };
    let specified_as = filter_doc::of_node(&Node::Not(Box::new(inner.clone())));
    let mut details = of_leaf(inner, reason, &specified_as, doc);
    let name = match inner {
        Node::Compare { op: Compare::Eq, .. } => "$ne",
        Node::In(_) => "$nin",
        Node::Exists { .. } => "$exists",
        _ => "$not",
    };
    let mut renamed = DocBuf::new().with("operatorName", name);
    for (field, value) in details.as_doc().iter().filter(|(field, _)| *field != "operatorName") {
        renamed.append(field, value);
    }
    details = renamed;
    Ok(details)
}

fn reason(node: &Node) -> &'static str {
    match node {
        Node::Compare { .. } => "comparison failed",
        Node::In(_) => "no matching value found in array",
        Node::Exists { .. } => "path does not exist",
        Node::Type { .. } => "type did not match",
        Node::Regex { .. } => "regular expression did not match",
        Node::Size { .. } => "array length was not equal to given size",
        Node::Mod { .. } => "$mod did not evaluate to expected remainder",
        Node::Bits { .. } => "bitwise operator failed to match",
        Node::ElemMatchObject { .. } | Node::ElemMatchValue { .. } => "array did not satisfy the child predicate",
        _ => "expression did not match",
    }
}

/// A predicate about one path, with the values that it read.
fn of_leaf(node: &Node, reason: &str, specified_as: &DocBuf, doc: Doc<'_>) -> DocBuf {
    let operator = match specified_as.as_doc().first() {
        Some((_, ValueRef::Document(operators))) => operators.first().map_or("", |(name, _)| name),
        Some((name, _)) => name,
        None => "",
    };
    let details = DocBuf::new().with("operatorName", operator).with("specifiedAs", specified_as);
    let Some(path) = node.path() else { return details.with("reason", reason) };
    let values = values_at(path, doc);
    match values.as_slice() {
        [] if !matches!(node, Node::Exists { .. }) => details.with("reason", "field was missing"),
        [] => details.with("reason", reason),
        [value] => {
            let details = details.with("reason", reason).with("consideredValue", value);
            match node {
                Node::Type { .. } => details.with("consideredType", text::type_name(Some(value.as_ref()))),
                _ => details,
            }
        }
        several => {
            let several: ArrayBuf = several.iter().collect();
            details.with("reason", reason).with("consideredValues", &several)
        }
    }
}

fn values_at(path: &Path, doc: Doc<'_>) -> Vec<Value> {
    let mut values = Vec::new();
    path.visit(doc, Leaf::Whole, &mut |visit| {
        values.extend(visit.value.map(ValueRef::to_value));
        false
    });
    values
}
