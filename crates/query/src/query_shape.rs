//! The shape of a statement: the statement without its constants, as a document and as the hash that clients see
//! (`queryShapeHash`). Query settings are for shapes.
//!
//! Constants become the names of their types, `"?number"`; paths, operators, field names and the order of conditions stay.
//!
//! A shape is cut short when the statement that needs it is to end; who hashes it checks for that.

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, Type, ValueRef};
use arbor_lang::matcher::{TypeSet, type_set};
use arbor_lang::stop;
use arbor_store::Namespace;
use sha2::{Digest, Sha256};

use crate::{AggregateSpec, DistinctSpec, FindSpec, Result};

/// SHA-256 of the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueryShape([u8; 32]);

impl QueryShape {
    /// Errors: the statement ended meanwhile.
    pub fn of_find(spec: &FindSpec<'_>) -> Result<QueryShape> {
        QueryShape::of_whole(&find_doc(spec))
    }

    /// Errors: the statement ended meanwhile.
    pub fn of_distinct(spec: &DistinctSpec<'_>) -> Result<QueryShape> {
        QueryShape::of_whole(&distinct_doc(spec))
    }

    /// Errors: the statement ended meanwhile.
    pub fn of_aggregate(spec: &AggregateSpec<'_>) -> Result<QueryShape> {
        QueryShape::of_whole(&aggregate_doc(spec))
    }

    pub fn doc_of_find(spec: &FindSpec<'_>) -> DocBuf {
        find_doc(spec)
    }

    pub fn doc_of_distinct(spec: &DistinctSpec<'_>) -> DocBuf {
        distinct_doc(spec)
    }

    pub fn doc_of_aggregate(spec: &AggregateSpec<'_>) -> DocBuf {
        aggregate_doc(spec)
    }

    /// Returns the hash of a shape that was just made, unless that was cut short.
    fn of_whole(shape: &DocBuf) -> Result<QueryShape> {
        stop::check()?;
        Ok(QueryShape::of(shape))
    }

    pub fn of(shape: &DocBuf) -> QueryShape {
        QueryShape(Sha256::digest(shape.as_bytes()).into())
    }

    /// Returns 64 hexadecimal digits.
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    /// Reads what [`QueryShape::text`] writes.
    pub fn parse(text: &str) -> Option<QueryShape> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(QueryShape(bytes))
    }
}

pub(crate) fn find_doc(spec: &FindSpec<'_>) -> DocBuf {
    let mut doc = shape_of("find", &spec.namespace).with("filter", &filter(spec.filter));
    append_kept(&mut doc, "sort", spec.sort);
    append_projection(&mut doc, spec.projection);
    for (name, given) in [("skip", spec.skip > 0), ("limit", spec.limit.is_some())] {
        if given {
            doc.append(name, "?number");
        }
    }
    for (name, given) in [
        ("returnKey", spec.return_key),
        ("showRecordId", spec.show_record_id),
        ("tailable", spec.tailable),
        ("awaitData", spec.await_data),
    ] {
        if given {
            doc.append(name, true);
        }
    }
    for (name, bound) in [("min", spec.min), ("max", spec.max)] {
        if let Some(bound) = bound {
            doc.append(name, &literals(bound));
        }
    }
    append_common(&mut doc, spec.collation.as_ref(), spec.let_variables);
    doc
}

pub(crate) fn distinct_doc(spec: &DistinctSpec<'_>) -> DocBuf {
    let mut doc = shape_of("distinct", &spec.namespace).with("key", spec.key).with("query", &filter(spec.query));
    append_common(&mut doc, spec.collation.as_ref(), None);
    doc
}

pub(crate) fn aggregate_doc(spec: &AggregateSpec<'_>) -> DocBuf {
    let mut doc = shape_of("aggregate", &spec.namespace).with("pipeline", &pipeline(spec.pipeline));
    append_common(&mut doc, spec.collation.as_ref(), spec.let_variables);
    doc
}

fn shape_of(command: &str, namespace: &Namespace) -> DocBuf {
    let target = DocBuf::new().with("db", namespace.db()).with("coll", namespace.collection());
    DocBuf::new().with("cmdNs", &target).with("command", command)
}

fn append_common(doc: &mut DocBuf, collation: Option<&arbor_lang::Collation>, variables: Option<Doc<'_>>) {
    if let Some(collation) = collation.filter(|own| !own.is_simple()) {
        doc.append("collation", &collation.to_doc());
    }
    if let Some(variables) = variables.filter(|own| !own.is_empty()) {
        doc.append("let", &expressions(variables));
    }
}

fn append_kept(doc: &mut DocBuf, name: &str, given: Option<Doc<'_>>) {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        doc.append(name, &kept(given));
    }
}

fn append_projection(doc: &mut DocBuf, given: Option<Doc<'_>>) {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        doc.append("projection", &projection(given));
    }
}

// ---- filters

/// The conditions one by one, `$and`s flattened.
fn filter(filter: Doc<'_>) -> DocBuf {
    let mut conditions = Vec::new();
    add_conditions(filter, &mut conditions);
    joined(conditions)
}

fn joined(mut conditions: Vec<DocBuf>) -> DocBuf {
    match conditions.len() {
        0 => DocBuf::new(),
        1 => conditions.swap_remove(0),
        _ => DocBuf::new().with("$and", &while_running(conditions.iter()).collect::<ArrayBuf>()),
    }
}

fn add_conditions(conjunction: Doc<'_>, conditions: &mut Vec<DocBuf>) {
    for (name, value) in while_running(conjunction.iter()) {
        match (name, value) {
            ("$comment", _) => {}
            ("$and", ValueRef::Array(parts)) => {
                for part in documents(parts) {
                    add_conditions(part, conditions);
                }
            }
            ("$or" | "$nor", ValueRef::Array(parts)) => {
                let parts: ArrayBuf = documents(parts).map(filter).collect::<Vec<_>>().iter().collect();
                conditions.push(DocBuf::new().with(name, &parts));
            }
            ("$expr", value) => {
                let mut doc = DocBuf::new();
                append_expression(&mut doc, name, value);
                conditions.push(doc);
            }
            ("$jsonSchema", ValueRef::Document(schema)) => {
                conditions.push(DocBuf::new().with(name, &kept(schema)));
            }
            (name, ValueRef::Document(arguments)) if name.starts_with('$') => {
                conditions.push(DocBuf::new().with(name, &literals(arguments)));
            }
            (name, value) if name.starts_with('$') => conditions.push(DocBuf::new().with(name, &placeholder(value))),
            (path, value) => {
                let each = operators(value).into_iter();
                conditions.extend(each.map(|operator| DocBuf::new().with(path, &operator)));
            }
        }
    }
}

/// The operators of a condition on a path, each on its own.
fn operators(value: ValueRef<'_>) -> Vec<DocBuf> {
    let own = match value {
        ValueRef::Document(own) if own.first().is_some_and(|(name, _)| name.starts_with('$')) => own,
        ValueRef::Regex { .. } => return vec![DocBuf::new().with("$regex", "?string")],
        value => return vec![DocBuf::new().with("$eq", &placeholder(value))],
    };
    let each = while_running(own.iter()).map(|(name, argument)| {
        let mut doc = DocBuf::new();
        match (name, argument) {
            ("$not", ValueRef::Document(_) | ValueRef::Regex { .. }) => {
                doc.append(name, &joined(operators(argument)));
            }
            ("$elemMatch", ValueRef::Document(inner)) => {
                let of_values = inner.first().is_some_and(|(name, _)| {
                    name.starts_with('$') && !matches!(name, "$and" | "$or" | "$nor" | "$expr")
                });
                doc.append(name, &if of_values { joined(operators(argument)) } else { filter(inner) });
            }
            ("$all", ValueRef::Array(values)) => {
                doc.append(
                    name,
                    &while_running(values.iter())
                        .map(placeholder)
                        .collect::<Vec<_>>()
                        .iter()
                        .map(String::as_str)
                        .collect::<ArrayBuf>(),
                );
            }
            ("$exists" | "$options", argument) => drop(doc.append(name, argument)),
            ("$type", ValueRef::Array(_)) => drop(doc.append(name, argument)),
            ("$type", argument) => drop(doc.append(name, &[argument].into_iter().collect::<ArrayBuf>())),
            ("$regex", _) => drop(doc.append(name, "?string")),
            (name, ValueRef::Document(arguments)) if name.starts_with("$geo") || name.starts_with("$near") => {
                doc.append(name, &literals(arguments));
            }
            (name, argument) => drop(doc.append(name, &placeholder(argument))),
        }
        doc
    });
    each.collect()
}

// ---- pipelines

fn pipeline(stages: Array<'_>) -> ArrayBuf {
    let stages: Vec<DocBuf> = documents(stages).map(stage).collect();
    stages.iter().collect()
}

/// Returns the shape of a stage.
pub(crate) fn stage(stage: Doc<'_>) -> DocBuf {
    let mut doc = DocBuf::new();
    for (name, value) in while_running(stage.iter()) {
        match (name, value) {
            ("$match", ValueRef::Document(conditions)) => drop(doc.append(name, &filter(conditions))),
            ("$project", ValueRef::Document(shown)) => drop(doc.append(name, &projection(shown))),
            ("$facet", ValueRef::Document(pipelines)) => {
                let pipelines: Vec<(&str, ArrayBuf)> = while_running(pipelines.iter())
                    .filter_map(|(name, value)| match value {
                        ValueRef::Array(stages) => Some((name, pipeline(stages))),
                        _ => None,
                    })
                    .collect();
                let shown: DocBuf = pipelines.iter().map(|(name, stages)| (*name, stages)).collect();
                doc.append(name, &shown);
            }
            (
                "$lookup" | "$graphLookup" | "$unionWith" | "$out" | "$merge" | "$unset" | "$count" | "$sort" | "$fill"
                | "$densify" | "$unwind" | "$geoNear",
                ValueRef::Document(arguments),
            ) => drop(doc.append(name, &kept(arguments))),
            ("$out" | "$merge" | "$unset" | "$count" | "$unionWith" | "$unwind", value) => {
                doc.append(name, value);
            }
            (name, value) => append_expression(&mut doc, name, value),
        }
    }
    doc
}

/// Names stay, numbers become placeholders but for directions (1 and -1), pipelines inside become their shapes.
fn kept(doc: Doc<'_>) -> DocBuf {
    let mut shown = DocBuf::new();
    for (name, value) in while_running(doc.iter()) {
        match (name, value) {
            ("pipeline" | "whenMatched", ValueRef::Array(stages)) => drop(shown.append(name, &pipeline(stages))),
            ("query", ValueRef::Document(conditions)) => drop(shown.append(name, &filter(conditions))),
            ("let" | "connectFromField" | "startWith" | "output", ValueRef::Document(inner)) => {
                shown.append(name, &expressions(inner));
            }
            (name, ValueRef::Document(inner)) => drop(shown.append(name, &kept(inner))),
            (name, value) => match arbor_lang::number::exact_i64(value) {
                Some(direction @ (1 | -1)) => drop(shown.append(name, direction as i32)),
                _ if is_number(value) => drop(shown.append(name, "?number")),
                _ => drop(shown.append(name, value)),
            },
        }
    }
    shown
}

fn projection(shown: Doc<'_>) -> DocBuf {
    let mut doc = DocBuf::new();
    for (name, value) in while_running(shown.iter()) {
        match value {
            ValueRef::Bool(shows) => drop(doc.append(name, shows)),
            value if is_number(value) => {
                let shows = !value.compare(ValueRef::Int32(0)).is_eq();
                doc.append(name, shows);
            }
            ValueRef::Document(inner) if inner.first().is_none_or(|(name, _)| !name.starts_with('$')) => {
                doc.append(name, &projection(inner));
            }
            ValueRef::Document(inner) if inner.get("$elemMatch").is_some() => {
                doc.append(name, &operators(ValueRef::Document(inner)).first().cloned().unwrap_or_default());
            }
            value => append_expression(&mut doc, name, value),
        }
    }
    doc
}

// ---- values

fn expressions(doc: Doc<'_>) -> DocBuf {
    let mut shown = DocBuf::new();
    for (name, value) in while_running(doc.iter()) {
        match (name, value) {
            ("$literal" | "$const", value) => drop(shown.append(name, &placeholder(value))),
            (name, value) => append_expression(&mut shown, name, value),
        }
    }
    shown
}

fn append_expression(doc: &mut DocBuf, name: &str, value: ValueRef<'_>) {
    match value {
        ValueRef::String(text) if text.starts_with('$') => drop(doc.append(name, text)),
        ValueRef::Document(inner) => drop(doc.append(name, &expressions(inner))),
        ValueRef::Array(values) => {
            let inner = expressions(values.as_doc());
            let values: ArrayBuf = while_running(inner.as_doc().iter()).map(|(_, value)| value).collect();
            doc.append(name, &values);
        }
        value => drop(doc.append(name, &placeholder(value))),
    }
}

/// Every value below becomes its placeholder.
fn literals(doc: Doc<'_>) -> DocBuf {
    let mut shown = DocBuf::new();
    for (name, value) in while_running(doc.iter()) {
        match value {
            ValueRef::Document(inner) => drop(shown.append(name, &literals(inner))),
            value => drop(shown.append(name, &placeholder(value))),
        }
    }
    shown
}

/// `"?number"`, `"?array<?string>"`; arrays of several types, and empty ones, are `"?array<>"`.
fn placeholder(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Array(values) => {
            let mut types = while_running(values.iter()).map(placeholder);
            let first = types.next();
            let same = first.filter(|first| types.all(|other| other == *first));
            format!("?array<{}>", same.unwrap_or_default())
        }
        value if is_number(value) => "?number".to_owned(),
        value => format!("?{}", type_name(value.ty())),
    }
}

fn is_number(value: ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::Decimal128(_))
}

fn type_name(ty: Type) -> &'static str {
    if TypeSet::numbers().contains(ty) { "number" } else { type_set::alias(ty) }
}

fn documents(values: Array<'_>) -> impl Iterator<Item = Doc<'_>> {
    while_running(values.iter()).filter_map(|value| match value {
        ValueRef::Document(doc) => Some(doc),
        _ => None,
    })
}

/// The items, until the statement is to end.
fn while_running<I: Iterator>(items: I) -> impl Iterator<Item = I::Item> {
    items.take_while(|_| stop::tick().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    fn shape(text: &str) -> String {
        let filter = doc(text);
        let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(Namespace::new("db", "c").unwrap()) };
        QueryShape::of_find(&spec).unwrap().text()
    }

    #[test]
    fn constants_and_notation_make_no_difference() {
        for (one, other) in [
            ("{ a: 1 }", "{ a: { $eq: 7.5 } }"),
            ("{ a: 1, b: 'x' }", "{ $and: [ { a: 3 }, { b: 'y' } ] }"),
            ("{ a: { $in: [1] } }", "{ a: { $in: [1, 2] } }"),
            ("{ a: { $type: 'int' } }", "{ a: { $type: ['int'] } }"),
            ("{ $expr: { $gt: ['$a', 1] } }", "{ $expr: { $gt: ['$a', 2] } }"),
            ("{ a: 1, $comment: 'x' }", "{ a: 1 }"),
        ] {
            assert_eq!(shape(one), shape(other), "{one} {other}");
        }
    }

    #[test]
    fn operators_fields_types_and_order_do() {
        for (one, other) in [
            ("{ a: 1 }", "{ b: 1 }"),
            ("{ a: 1 }", "{ a: 'x' }"),
            ("{ a: 1, b: 1 }", "{ b: 1, a: 1 }"),
            ("{ a: { $gt: 1 } }", "{ a: { $lt: 1 } }"),
            ("{ a: { $all: [1] } }", "{ a: { $all: [1, 2] } }"),
            ("{ $expr: { $gt: ['$a', 1] } }", "{ $expr: { $lt: ['$a', 1] } }"),
            ("{ a: { $exists: true } }", "{ a: { $exists: false } }"),
        ] {
            assert_ne!(shape(one), shape(other), "{one} {other}");
        }
    }

    #[test]
    fn a_shape_ends_with_its_statement() {
        let conditions: DocBuf = (0..10_000).map(|n| (format!("a{n}"), ValueRef::Int32(n))).collect();
        let spec = FindSpec { filter: conditions.as_doc(), ..FindSpec::new(Namespace::new("db", "c").unwrap()) };
        let ended = || Err(arbor_lang::Error::new(arbor_lang::Code::INTERRUPTED, "ended"));
        let (shape, hash) = stop::stoppable(ended, || (find_doc(&spec), QueryShape::of_find(&spec)));
        assert!(shape.as_bytes().len() < 10_000 && hash.is_err(), "{} bytes", shape.as_bytes().len());
    }

    #[test]
    fn a_hash_is_read_back() {
        let text = shape("{}");
        assert_eq!(QueryShape::parse(&text).map(|shape| shape.text()), Some(text));
        assert!(QueryShape::parse("12").is_none());
        assert!(QueryShape::parse(&"x".repeat(64)).is_none());
    }
}
