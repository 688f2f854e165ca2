//! `$text`: the text index and the ranges of the terms that are searched.
//!
//! T1: each field before the text in the index is one value, by an equality next to `$text`. T2: under `$or`, every other
//! branch has an index. The keys are those of the simple collation. T3: a partial index is used only if the query implies its filter; there is no other way.

use std::sync::Arc;

use arbor_bson::keystring::successor;
use arbor_bson::{DocBuf, Value, ValueRef};
use arbor_lang::matcher::{Compare, Node, TextNode, index_required};
use arbor_lang::text_search::TextMatcher;
use arbor_lang::{Code, Filter};
use arbor_store::{Collection, Index, text_key, text_prefix};

use super::access::{Access, Branch, IndexAccess, Plans, ScanRange, Solution};
use super::index_shape::IndexShape;
use super::key_bounds::Span;
use super::predicate::conjuncts;
use super::query::Query;
use super::sort_order::Direction;
use crate::{Error, Result};

/// A search in the text index.
#[derive(Clone, Debug)]
pub struct TextAccess {
    pub matcher: Arc<TextMatcher>,
    pub shape: IndexShape,
    /// The values of the fields before the text.
    pub prefix: DocBuf,
    /// The entries of each term, in the order of the search's terms.
    pub spans: Vec<Span>,
    /// The scores are requested.
    pub scored: bool,
}

impl TextAccess {
    pub fn scan(&self, span: &Span) -> IndexAccess {
        IndexAccess {
            shape: self.shape.clone(),
            range: ScanRange::Keys(span.clone()),
            intervals: Vec::new(),
            direction: Direction::Forward,
        }
    }
}

/// Plans a branch of an `$or` together with the given conjuncts; `None`: no index can be used.
type PlanBranch<'p> = dyn Fn(&Node, &[Node]) -> Result<Option<Branch>> + 'p;

/// `branch` plans another branch of an `$or` that contains `$text`.
pub(super) fn plan(collection: &Collection, query: &Query, text: &TextNode, branch: &PlanBranch<'_>) -> Result<Plans> {
    if query.hint.is_some() || query.min.is_some() || query.max.is_some() {
        return Err(Error::bad_value("text and hint not allowed in same query"));
    }
    let Some((at, index)) = collection.text_index() else { return Err(index_required().into()) };
    let Some(keys) = index.generator.text() else { return Err(index_required().into()) };
    let search = Search { at, index, matcher: text.bind(keys.fields()), query };
    let all = conjuncts(query.filter.root());
    let place = all.iter().position(holds_text).unwrap_or(0);
    let others = without(all, place);
    let sorts = query.sort.is_some();
    let (access, residual) = match all.get(place) {
        Some(Node::Or(branches)) => {
            let own = branches.iter().position(holds_text).unwrap_or(0);
            let mut nodes = branches.get(own).map(|own| conjuncts(own).to_vec()).unwrap_or_default();
            nodes.extend_from_slice(&others);
            let (access, residual) = search.access(nodes)?;
            let rest = without(branches, own);
            let rest: Option<Vec<Branch>> = rest.iter().map(|node| branch(node, &others)).collect::<Result<_>>()?;
            let message = "Failed to produce a solution for TEXT under OR - other non-TEXT clauses under OR have to be \
                           indexed as well.";
            (Access::TextOr(access, residual, rest.ok_or_else(|| no_solution(message))?), None)
        }
        _ => {
            let (access, residual) = search.access(all.to_vec())?;
            (Access::Text(access), residual)
        }
    };
    Ok(Plans::only(Solution { sorts, ..Solution::unsorted(access, residual) }))
}

struct Search<'s> {
    at: usize,
    index: &'s Index,
    matcher: Arc<TextMatcher>,
    query: &'s Query,
}

impl Search<'_> {
    /// For conjuncts of which one is `$text`; and what is left of them.
    fn access(&self, nodes: Vec<Node>) -> Result<(Box<TextAccess>, Option<Filter>)> {
        let unusable = "failed to use text index to satisfy $text query (if text index is compound, are equality \
                        predicates given for all prefix fields?)";
        if !nodes.iter().any(|node| matches!(node, Node::Text(_))) {
            return Err(no_solution(unusable));
        }
        let shape = IndexShape::of_index(self.at, self.index);
        let collation = self.query.filter.collation();
        if !shape.holds_all_of(&Filter::from_root(Node::And(nodes.clone()), collation)) {
            return Err(no_solution(unusable));
        }
        let pattern = &self.index.key_pattern;
        if !text_prefix(pattern).is_empty() && !collation.is_simple() {
            return Err(no_solution(unusable));
        }
        let mut prefix = DocBuf::new();
        for field in text_prefix(pattern) {
            let value = equality(&nodes, &field.path).ok_or_else(|| no_solution(unusable))?;
            prefix.append(&field.path, value);
        }
        let before: Vec<ValueRef<'_>> = prefix.as_doc().iter().map(|(_, value)| value).collect();
        let span = |term: &String| {
            let low = text_key(pattern, before.iter().copied(), term);
            Span { high: successor(&low), low, point: false }
        };
        let spans = self.matcher.query().terms.iter().map(span).collect();
        let rest: Vec<Node> = nodes.into_iter().filter(|node| !matches!(node, Node::Text(_))).collect();
        let residual = (!rest.is_empty()).then(|| Filter::from_root(Node::And(rest), collation));
        let (matcher, scored) = (self.matcher.clone(), self.query.scored);
        Ok((Box::new(TextAccess { matcher, shape, prefix, spans, scored }), residual))
    }
}

fn equality<'n>(nodes: &'n [Node], path: &str) -> Option<&'n Value> {
    nodes.iter().find_map(|node| match node {
        Node::Compare { path: own, op: Compare::Eq, value } if own.as_str() == path => Some(value),
        _ => None,
    })
}

fn holds_text(node: &Node) -> bool {
    match node {
        Node::Text(_) => true,
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(holds_text),
        _ => false,
    }
}

fn without(nodes: &[Node], place: usize) -> Vec<Node> {
    nodes.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, node)| node.clone()).collect()
}

fn no_solution(reason: &str) -> Error {
    let message = format!("error processing query: planner returned error :: caused by :: {reason}");
    Error::new(Code::NO_QUERY_EXECUTION_PLANS, message)
}
