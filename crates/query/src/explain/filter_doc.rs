//! A parsed filter as a document again: `parsedQuery` and the `filter` of stages.

use arbor_bson::{ArrayBuf, DocBuf, Value, ValueRef};
use arbor_lang::Filter;
use arbor_lang::matcher::type_set::alias;
use arbor_lang::matcher::{BitKind, Compare, Node, Regex};

pub(crate) fn of_filter(filter: &Filter) -> DocBuf {
    of_node(filter.root())
}

pub(crate) fn of_node(node: &Node) -> DocBuf {
    match node {
        Node::And(nodes) if nodes.is_empty() => DocBuf::new(),
        Node::And(nodes) => listed("$and", nodes),
        Node::Or(nodes) => listed("$or", nodes),
        Node::Nor(nodes) => listed("$nor", nodes),
        Node::Expr(_) => DocBuf::new().with("$expr", "<expression>"),
        Node::Schema(schema) => DocBuf::new().with("$jsonSchema", schema.source()),
        Node::Text(text) => text.predicate.shown(),
        Node::Outside(_) => DocBuf::new(),
        Node::SampleRate(rate) => DocBuf::new().with("$sampleRate", *rate),
        Node::AlwaysTrue => DocBuf::new().with("$alwaysTrue", 1i32),
        Node::AlwaysFalse => DocBuf::new().with("$alwaysFalse", 1i32),
        Node::Not(inner) => match inner.path() {
            Some(path) => {
                let negated = DocBuf::new().with("$not", &operators(inner));
                DocBuf::new().with(path.as_str(), &negated)
            }
            None => listed("$nor", std::slice::from_ref(inner)),
        },
        other => match other.path() {
            Some(path) => DocBuf::new().with(path.as_str(), &operators(other)),
            None => DocBuf::new(),
        },
    }
}

fn listed(operator: &str, nodes: &[Node]) -> DocBuf {
    let mut array = ArrayBuf::new();
    for node in nodes {
        array.push(&of_node(node));
    }
    DocBuf::new().with(operator, &array)
}

/// Returns the operators of a predicate, without its path.
fn operators(node: &Node) -> DocBuf {
    let mut doc = DocBuf::new();
    match node {
        Node::And(nodes) => {
            for node in nodes {
                for (name, value) in operators(node).as_doc() {
                    doc.append(name, value);
                }
            }
        }
        Node::Compare { op, value, .. } => {
            let name = match op {
                Compare::Eq => "$eq",
                Compare::Lt => "$lt",
                Compare::Lte => "$lte",
                Compare::Gt => "$gt",
                Compare::Gte => "$gte",
            };
            doc.append(name, value);
        }
        Node::In(membership) => {
            let mut values: ArrayBuf = membership.values.iter().collect();
            for regex in &membership.regexes {
                values.push(&regex_value(regex));
            }
            doc.append("$in", &values);
        }
        Node::Not(inner) => {
            doc.append("$not", &operators(inner));
        }
        Node::Exists { .. } => {
            doc.append("$exists", true);
        }
        Node::Type { types, .. } => {
            let names: ArrayBuf = types.iter().map(alias).collect();
            doc.append("$type", &names);
        }
        Node::Regex { regex, .. } => {
            doc.append("$regex", regex.pattern.as_str());
            if !regex.options.is_empty() {
                doc.append("$options", regex.options.as_str());
            }
        }
        Node::Mod { divisor, remainder, .. } => {
            let pair: ArrayBuf = [*divisor, *remainder].into_iter().collect();
            doc.append("$mod", &pair);
        }
        Node::Bits { test, .. } => {
            let name = match test.kind {
                BitKind::AllSet => "$bitsAllSet",
                BitKind::AllClear => "$bitsAllClear",
                BitKind::AnySet => "$bitsAnySet",
                BitKind::AnyClear => "$bitsAnyClear",
            };
            let positions: ArrayBuf = test.positions.iter().map(|position| i64::from(*position)).collect();
            doc.append(name, &positions);
        }
        Node::Geo { test, .. } => append_all(&mut doc, &test.source),
        Node::Near(near) => append_all(&mut doc, &near.source),
        Node::Size { size, .. } => {
            doc.append("$size", *size);
        }
        Node::ElemMatchObject { inner, .. } => {
            doc.append("$elemMatch", &of_node(inner));
        }
        Node::ElemMatchValue { inner, .. } => {
            doc.append("$elemMatch", &operators(inner));
        }
        other => {
            doc.append("$expr", ValueRef::from(&of_node(other)));
        }
    }
    doc
}

fn append_all(doc: &mut DocBuf, fields: &DocBuf) {
    for (name, value) in fields.as_doc() {
        doc.append(name, value);
    }
}

fn regex_value(regex: &Regex) -> Value {
    Value::Regex { pattern: regex.pattern.clone(), options: regex.options.clone() }
}
