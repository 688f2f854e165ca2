//! Which stages at the begin of a pipeline a query does by itself.

use std::collections::VecDeque;

use arbor_lang::matcher::Node;
use arbor_lang::{Filter, Stage};

use super::step::Step;
use crate::plan::{Query, conjuncts};

/// Moves stages from the front of `steps` into the query; returns how many.
pub(super) fn push_down(steps: &mut VecDeque<Step>, query: &mut Query) -> usize {
    let mut taken = 0;
    while let Some(Step::Pure(stage)) = steps.front() {
        if !take(stage, query) {
            break;
        }
        steps.pop_front();
        taken += 1;
    }
    narrow_buckets(steps, query);
    taken
}

/// Adds conditions on buckets, derived from the `$match`es right after their unpacking. These stay, since a bucket holds other
/// measurements as well.
fn narrow_buckets(steps: &mut VecDeque<Step>, query: &mut Query) {
    // what buckets say of their measurements is by bytes
    if !query.filter.collation().is_simple() {
        return;
    }
    let Some(Step::Unpack(unpack, seen)) = steps.front() else { return };
    let matches = steps.iter().skip(1).map_while(|step| match step {
        Step::Pure(Stage::Match(filter)) => Some(filter),
        _ => None,
    });
    let matches: Vec<&Filter> = matches.collect();
    let new = matches.iter().skip(*seen).flat_map(|filter| conjuncts(filter.root()));
    let nodes: Vec<Node> = new.flat_map(|node| unpack.narrow(node)).collect();
    let count = matches.len();
    let narrower = Filter::from_root(Node::And(nodes), query.filter.collation());
    query.filter = both(&query.filter, &narrower);
    if let Some(Step::Unpack(_, seen)) = steps.front_mut() {
        *seen = count;
    }
}

/// Returns true if the query now does the stage.
fn take(stage: &Stage, query: &mut Query) -> bool {
    let unlimited = query.skip == 0 && query.limit.is_none();
    match stage {
        Stage::Match(filter) if unlimited => query.filter = both(&query.filter, filter),
        Stage::Sort(pattern) if unlimited => query.sort = Some(pattern.clone()),
        Stage::Skip(count) => {
            query.skip = query.skip.saturating_add(*count);
            query.limit = query.limit.map(|limit| limit.saturating_sub(*count));
        }
        Stage::Limit(count) => query.limit = Some(query.limit.map_or(*count, |limit| limit.min(*count))),
        _ => return false,
    }
    true
}

/// Both filters of one statement, the first one first.
pub(super) fn both(a: &Filter, b: &Filter) -> Filter {
    let nodes: Vec<Node> = conjuncts(a.root()).iter().chain(conjuncts(b.root())).cloned().collect();
    Filter::from_root(Node::And(nodes), a.collation())
}
