//! Equal but simpler trees.

use super::{Compare, In, Node};
use crate::{Collation, stop};

impl Node {
    /// Flattens `And` in `And` and `Or` in `Or`, takes single branches out, drops constants, turns `Or` of equalities
    /// on one path into `In`. A filter that matches everything becomes `And(vec![])`. Cut short when the statement is to stop.
    pub(super) fn optimise(self, collation: &Collation) -> Node {
        match self {
            _ if stop::tick().is_err() => Node::AlwaysFalse,
            Node::And(nodes) => optimise_and(nodes, collation),
            Node::Or(nodes) => optimise_or(nodes, collation),
            Node::Nor(nodes) => match optimise_or(nodes, collation) {
                Node::Or(nodes) => Node::Nor(nodes),
                other => negate(other),
            },
            Node::Not(node) => negate(node.optimise(collation)),
            Node::ElemMatchObject { path, inner } => {
                Node::ElemMatchObject { path, inner: Box::new(inner.optimise(collation)) }
            }
            Node::ElemMatchValue { path, inner } => {
                Node::ElemMatchValue { path, inner: Box::new(inner.optimise(collation)) }
            }
            Node::In(In { path, mut values, regexes }) if values.len() == 1 && regexes.is_empty() => {
                match values.pop() {
                    Some(value) => Node::Compare { path, op: Compare::Eq, value },
                    None => Node::AlwaysFalse,
                }
            }
            Node::In(membership) if membership.values.is_empty() && membership.regexes.is_empty() => Node::AlwaysFalse,
            Node::SampleRate(0.0) => Node::AlwaysFalse,
            Node::SampleRate(1.0) => Node::AlwaysTrue,
            other => other,
        }
    }
}

fn optimise_and(nodes: Vec<Node>, collation: &Collation) -> Node {
    let mut flat = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node.optimise(collation) {
            Node::And(inner) => flat.extend(inner),
            Node::AlwaysTrue => {}
            Node::AlwaysFalse => return Node::AlwaysFalse,
            other => flat.push(other),
        }
    }
    single(flat).unwrap_or_else(Node::And)
}

fn optimise_or(nodes: Vec<Node>, collation: &Collation) -> Node {
    let mut flat = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node.optimise(collation) {
            Node::Or(inner) => flat.extend(inner),
            Node::AlwaysFalse => {}
            Node::AlwaysTrue => return Node::And(Vec::new()),
            Node::And(inner) if inner.is_empty() => return Node::And(Vec::new()),
            other => flat.push(other),
        }
    }
    if flat.is_empty() {
        return Node::AlwaysFalse;
    }
    match single(flat) {
        Ok(node) => node,
        Err(branches) => equalities(branches, collation),
    }
}

fn single(mut nodes: Vec<Node>) -> Result<Node, Vec<Node>> {
    match nodes.pop() {
        Some(node) if nodes.is_empty() => Ok(node),
        Some(node) => {
            nodes.push(node);
            Err(nodes)
        }
        None => Err(nodes),
    }
}

/// `a = 1 or a = 2` is `a in [1, 2]`.
fn equalities(branches: Vec<Node>, collation: &Collation) -> Node {
    let same_path = |node: &Node| match (node, branches.first()) {
        (Node::Compare { path, op: Compare::Eq, .. }, Some(Node::Compare { path: first, .. })) => path == first,
        _ => false,
    };
    if !branches.iter().all(same_path) {
        return Node::Or(branches);
    }
    let mut path = None;
    let mut values = Vec::with_capacity(branches.len());
    for branch in branches {
        if let Node::Compare { path: of_branch, value, .. } = branch {
            path.get_or_insert(of_branch);
            values.push(value);
        }
    }
    match path {
        Some(path) => Node::In(In::of_values(path, values, collation)).optimise(collation),
        None => Node::AlwaysFalse,
    }
}

fn negate(node: Node) -> Node {
    match node {
        Node::Not(inner) => *inner,
        Node::AlwaysFalse => Node::And(Vec::new()),
        Node::AlwaysTrue => Node::AlwaysFalse,
        Node::And(nodes) if nodes.is_empty() => Node::AlwaysFalse,
        other => Node::Not(Box::new(other)),
    }
}
