//! Slow operations by shape: which statements, with which plans, cost how much. Fed by what the slow query log logs, so it costs nothing
//! where nothing is slow. A shape is a statement with `?` for its values, which therefore are neither shown nor kept.

use std::time::{Duration, Instant};

use arbor_base::work::Work;
use arbor_bson::{Array, Doc, DocBuf, ValueRef};
use parking_lot::Mutex;

/// Shapes that are kept; the one with the least time is forgotten first.
const SHAPES_MAX: usize = 100;
/// Shapes in a sample of the flight recorder, and the interval at which they are chosen: another choice begins another chunk there.
const SAMPLED_MAX: usize = 10;
const CHOICE_INTERVAL: Duration = Duration::from_secs(60);
const TEXT_BYTES_MAX: usize = 512;
const DEPTH_MAX: usize = 8;
const ELEMENTS_MAX: usize = 8;

#[derive(Default)]
pub(crate) struct SlowShapes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shapes: Vec<Shape>,
    next_id: u64,
    /// Ids of the shapes in samples, and when they were chosen.
    sampled: Vec<u64>,
    chosen: Option<Instant>,
}

struct Shape {
    id: u64,
    namespace: String,
    text: String,
    plan: String,
    count: u64,
    micros: u64,
    micros_max: u64,
    keys_examined: u64,
    documents_examined: u64,
    returned: u64,
}

/// A slow operation that ended.
pub(crate) struct SlowOperation<'o> {
    pub namespace: String,
    pub statement: Doc<'o>,
    pub plan: Option<String>,
    pub took: Duration,
    pub work: &'o Work,
    pub returned: u64,
}

impl SlowShapes {
    pub(crate) fn add(&self, operation: SlowOperation<'_>) {
        let text = shape_of(operation.statement);
        let micros = operation.took.as_micros() as u64;
        let mut state = self.state.lock();
        let known = state.shapes.iter().position(|shape| shape.text == text && shape.namespace == operation.namespace);
        let at = known.unwrap_or_else(|| state.begin(operation.namespace, text));
        let Some(shape) = state.shapes.get_mut(at) else { return };
        shape.count += 1;
        shape.micros += micros;
        shape.micros_max = shape.micros_max.max(micros);
        shape.keys_examined += operation.work.keys_examined;
        shape.documents_examined += operation.work.documents_examined;
        shape.returned += operation.returned;
        if let Some(plan) = operation.plan {
            shape.plan = plan;
        }
    }

    /// Returns the shapes that a sample of the flight recorder shows, under their ids.
    pub(crate) fn sample(&self) -> DocBuf {
        let mut state = self.state.lock();
        if state.chosen.is_none_or(|chosen| chosen.elapsed() >= CHOICE_INTERVAL) && !state.shapes.is_empty() {
            state.choose();
        }
        let mut doc = DocBuf::new();
        for shape in state.shapes.iter().filter(|shape| state.sampled.contains(&shape.id)) {
            doc.append(&shape.id.to_string(), &shape.to_doc());
        }
        doc
    }

    /// Returns all shapes, the most expensive first.
    pub(crate) fn all(&self) -> Vec<DocBuf> {
        let state = self.state.lock();
        let mut shapes: Vec<&Shape> = state.shapes.iter().collect();
        shapes.sort_by_key(|shape| std::cmp::Reverse(shape.micros));
        shapes.into_iter().map(Shape::to_doc).collect()
    }
}

impl State {
    /// Makes room for a shape; returns its place.
    fn begin(&mut self, namespace: String, text: String) -> usize {
        if self.shapes.len() >= SHAPES_MAX {
            let others = self.shapes.iter().enumerate().filter(|(_, shape)| !self.sampled.contains(&shape.id));
            if let Some((at, _)) = others.min_by_key(|(_, shape)| shape.micros) {
                self.shapes.swap_remove(at);
            }
        }
        let id = self.next_id;
        self.next_id += 1;
        let (plan, count, micros, micros_max) = (String::new(), 0, 0, 0);
        let (keys_examined, documents_examined, returned) = (0, 0, 0);
        self.shapes.push(Shape {
            id,
            namespace,
            text,
            plan,
            count,
            micros,
            micros_max,
            keys_examined,
            documents_examined,
            returned,
        });
        debug_assert!(self.shapes.len() <= SHAPES_MAX);
        self.shapes.len() - 1
    }

    fn choose(&mut self) {
        let mut by_cost: Vec<&Shape> = self.shapes.iter().collect();
        by_cost.sort_by_key(|shape| std::cmp::Reverse(shape.micros));
        self.sampled = by_cost.into_iter().take(SAMPLED_MAX).map(|shape| shape.id).collect();
        self.chosen = Some(Instant::now());
    }
}

impl Shape {
    fn to_doc(&self) -> DocBuf {
        DocBuf::new()
            .with("ns", &*self.namespace)
            .with("shape", &*self.text)
            .with("plan", &*self.plan)
            .with("count", self.count as i64)
            .with("micros", self.micros as i64)
            .with("microsMax", self.micros_max as i64)
            .with("keysExamined", self.keys_examined as i64)
            .with("docsExamined", self.documents_examined as i64)
            .with("returned", self.returned as i64)
    }
}

/// Fields of commands that say what a statement does; the others are about its connection, its session and its reply.
const SHOWN: &[&str] = &[
    "filter",
    "query",
    "q",
    "u",
    "update",
    "sort",
    "projection",
    "fields",
    "pipeline",
    "key",
    "hint",
    "updates",
    "deletes",
];

fn shape_of(statement: Doc<'_>) -> String {
    let mut text = String::new();
    for (at, (name, value)) in statement.iter().enumerate() {
        if at == 0 && !SHOWN.contains(&name) {
            text.push_str(name);
        } else if SHOWN.contains(&name) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(name);
            text.push(' ');
            let keeps = matches!(name, "sort" | "projection" | "fields" | "hint");
            masked(value, keeps, 0, &mut text);
        }
        if text.len() > TEXT_BYTES_MAX {
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            text.push_str("...");
            break;
        }
    }
    text
}

/// Appends a value with `?` for what is data. `keeps`: small numbers are directions, and flags.
fn masked(value: ValueRef<'_>, keeps: bool, depth: usize, text: &mut String) {
    if depth > DEPTH_MAX || text.len() > TEXT_BYTES_MAX {
        text.push_str("...");
        return;
    }
    match value {
        ValueRef::Document(doc) => masked_fields(doc, keeps, depth, text),
        ValueRef::Array(array) => masked_elements(array, keeps, depth, text),
        // the path of a field
        ValueRef::String(path) if path.starts_with('$') => text.push_str(path),
        ValueRef::Int32(number @ -1..=1) if keeps => text.push_str(&number.to_string()),
        ValueRef::Double(number) if keeps && [-1.0, 0.0, 1.0].contains(&number) => text.push_str(&number.to_string()),
        _ => text.push('?'),
    }
}

fn masked_fields(doc: Doc<'_>, keeps: bool, depth: usize, text: &mut String) {
    text.push('{');
    for (at, (name, value)) in doc.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(name);
        text.push_str(": ");
        masked(value, keeps || matches!(name, "$sort" | "$project"), depth + 1, text);
        if text.len() > TEXT_BYTES_MAX {
            break;
        }
    }
    text.push('}');
}

/// Lists of values (`$in`) are one shape, however long.
fn masked_elements(array: Array<'_>, keeps: bool, depth: usize, text: &mut String) {
    let is_structure = |value: &ValueRef<'_>| matches!(value, ValueRef::Document(_) | ValueRef::Array(_));
    if !array.is_empty() && !array.iter().any(|value| is_structure(&value)) {
        return text.push_str("[?]");
    }
    text.push('[');
    for (at, value) in array.iter().enumerate().take(ELEMENTS_MAX) {
        if at > 0 {
            text.push_str(", ");
        }
        masked(value, keeps, depth + 1, text);
    }
    text.push(']');
}

#[cfg(test)]
mod tests {
    use arbor_notation::doc;

    use super::*;

    #[test]
    fn shapes_have_no_values() {
        for (statement, shape) in [
            (
                r#"{find: "c", filter: {a: 7, b: {$in: [1, 2, "secret"]}}, sort: {a: -1}, lsid: {id: 1}, $db: "t"}"#,
                "find filter {a: ?, b: {$in: [?]}} sort {a: -1}",
            ),
            (
                r#"{aggregate: "c", pipeline: [{$match: {a: "secret"}}, {$group: {_id: "$a"}}, {$sort: {_id: 1}}], cursor: {}}"#,
                "aggregate pipeline [{$match: {a: ?}}, {$group: {_id: $a}}, {$sort: {_id: 1}}]",
            ),
            (r#"{q: {a: 1}, u: {$set: {b: "secret"}}, multi: true}"#, "q {a: ?} u {$set: {b: ?}}"),
        ] {
            assert_eq!(shape_of(doc(statement).as_doc()), shape, "{statement}");
        }
        let mut deep = doc("{}");
        for n in 0..40 {
            deep = DocBuf::new().with(&format!("long name {n}"), &deep);
        }
        assert!(shape_of(DocBuf::new().with("filter", &deep).as_doc()).len() < 2 * TEXT_BYTES_MAX);
    }

    #[test]
    fn the_most_expensive_shapes_stay() {
        let shapes = SlowShapes::default();
        let work = Work::default();
        let add = |n: usize, millis: u64| {
            let statement = doc(&format!("{{find: 'c', filter: {{f{n}: 1}}}}"));
            let (namespace, plan) = ("t.c".to_owned(), Some("COLLSCAN".to_owned()));
            let (statement, took) = (statement.as_doc(), Duration::from_millis(millis));
            shapes.add(SlowOperation { namespace, statement, plan, took, work: &work, returned: 1 });
        };
        add(0, 100_000);
        add(0, 100_000);
        for n in 1..3 * SHAPES_MAX {
            add(n, 100 + n as u64);
            assert!(shapes.sample().as_doc().iter().count() <= SAMPLED_MAX);
        }
        let all = shapes.all();
        assert_eq!(all.len(), SHAPES_MAX);
        let first = all[0].as_doc();
        assert!(matches!(first.get("count"), Some(ValueRef::Int64(2))));
        assert!(matches!(first.get("shape"), Some(ValueRef::String("find filter {f0: ?}"))));
    }
}
