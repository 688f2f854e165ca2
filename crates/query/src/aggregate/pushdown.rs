//! Which stages at the begin of a pipeline a query does by itself.

use std::collections::VecDeque;

use arbor_lang::matcher::Node;
use arbor_lang::{Filter, Stage};

use crate::plan::{Query, conjuncts};

/// Moves stages from the front of `stages` into the query; answers how many.
pub fn push_down(stages: &mut VecDeque<Stage>, query: &mut Query) -> usize {
    let mut taken = 0;
    while let Some(stage) = stages.pop_front() {
        if let Some(stage) = take(stage, query) {
            stages.push_front(stage);
            break;
        }
        taken += 1;
    }
    taken
}

/// The stage is handed back when the query cannot do it.
fn take(stage: Stage, query: &mut Query) -> Option<Stage> {
    let unlimited = query.skip == 0 && query.limit.is_none();
    match stage {
        Stage::Match(filter) if unlimited => query.filter = both(&query.filter, &filter),
        Stage::Sort(pattern) if unlimited => query.sort = Some(pattern),
        Stage::Skip(count) => {
            query.skip = query.skip.saturating_add(count);
            query.limit = query.limit.map(|limit| limit.saturating_sub(count));
        }
        Stage::Limit(count) => query.limit = Some(query.limit.map_or(count, |limit| limit.min(count))),
        other => return Some(other),
    }
    None
}

fn both(a: &Filter, b: &Filter) -> Filter {
    let nodes: Vec<Node> = conjuncts(a.root()).iter().chain(conjuncts(b.root())).cloned().collect();
    Filter::from_root(Node::And(nodes))
}
