//! serverStatus, as numbers over time, and the commands of an experiment's script.

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_client::Client;
use serde_json::Value;

use crate::target::Statistics;

/// Sections that say something about storage; the engine's own is added by its name.
const SECTIONS: [&str; 5] = ["engine", "arborLog", "mem", "connections", "opLatencies"];
/// An engine has hundreds of counters. Those whose names contain one of these words explain why a server is slow.
const WORDS: [&str; 8] = ["cache", "checkpoint", "compact", "flush", "stall", "evict", "dirty", "pending"];
const ENGINE_COUNTERS_MAX: usize = 40;

pub(super) struct ServerStatus(pub Client);

impl Statistics for ServerStatus {
    fn read(&mut self) -> Vec<(String, f64)> {
        match self.0.command("admin", &DocBuf::new().with("serverStatus", 1)) {
            Ok(reply) => numbers_of(reply.doc),
            Err(_) => Vec::new(),
        }
    }
}

fn numbers_of(status: Doc<'_>) -> Vec<(String, f64)> {
    let mut numbers = Vec::new();
    for section in SECTIONS {
        if let Some(ValueRef::Document(doc)) = status.get(section) {
            flatten(section, doc, &mut numbers);
        }
    }
    let Some(ValueRef::Document(storage)) = status.get("storageEngine") else { return numbers };
    if let Some(ValueRef::String(engine)) = storage.get("name")
        && let Some(ValueRef::Document(doc)) = status.get(engine)
    {
        let mut own = Vec::new();
        flatten(engine, doc, &mut own);
        own.retain(|(name, _)| WORDS.iter().any(|word| name.to_ascii_lowercase().contains(word)));
        own.truncate(ENGINE_COUNTERS_MAX);
        numbers.extend(own);
    }
    numbers
}

fn flatten(path: &str, doc: Doc<'_>, numbers: &mut Vec<(String, f64)>) {
    for (name, value) in doc {
        let path = format!("{path}.{name}");
        match value {
            ValueRef::Document(inner) => flatten(&path, inner, numbers),
            ValueRef::Int32(number) => numbers.push((path, number.into())),
            ValueRef::Int64(number) => numbers.push((path, number as f64)),
            ValueRef::Double(number) => numbers.push((path, number)),
            _ => {}
        }
    }
}

/// Returns a command with its fields in this order: whole numbers that fit are int32.
pub(super) fn command_of(fields: &[(String, Value)]) -> DocBuf {
    document(fields.iter().map(|(name, value)| (name.as_str(), value)))
}

fn document<'a>(fields: impl Iterator<Item = (&'a str, &'a Value)>) -> DocBuf {
    let mut doc = DocBuf::new();
    for (name, value) in fields {
        append(name, value, &mut doc);
    }
    doc
}

fn append(name: &str, value: &Value, doc: &mut DocBuf) {
    match value {
        Value::Null => doc.append(name, ValueRef::Null),
        Value::Bool(value) => doc.append(name, *value),
        Value::Number(number) => append_number(name, number, doc),
        Value::String(text) => doc.append(name, text.as_str()),
        Value::Object(map) => doc.append(name, &document(map.iter().map(|(name, value)| (name.as_str(), value)))),
        Value::Array(list) => {
            let item = |item: &Value| {
                document(item.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value)))
            };
            let items: ArrayBuf = list.iter().map(item).collect::<Vec<DocBuf>>().iter().collect();
            doc.append(name, &items)
        }
    };
}

fn append_number<'a>(name: &str, number: &serde_json::Number, doc: &'a mut DocBuf) -> &'a mut DocBuf {
    match number.as_i64() {
        Some(whole) => match i32::try_from(whole) {
            Ok(small) => doc.append(name, small),
            Err(_) => doc.append(name, whole),
        },
        None => doc.append(name, number.as_f64().unwrap_or(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_becomes_numbers() {
        let checkpoint = DocBuf::new().with("count", 3i64).with("error", "x");
        let engine = DocBuf::new().with("diskBytes", 5i64).with("checkpoint", &checkpoint);
        let cache = DocBuf::new().with("bytes", 7).with("other", 1.5);
        let own = DocBuf::new().with("cache", &cache).with("reads", 1);
        let status = DocBuf::new()
            .with("uptime", 9)
            .with("engine", &engine)
            .with("storageEngine", &DocBuf::new().with("name", "ftree"))
            .with("ftree", &own);
        let expect = [
            ("engine.diskBytes", 5.0),
            ("engine.checkpoint.count", 3.0),
            ("ftree.cache.bytes", 7.0),
            ("ftree.cache.other", 1.5),
        ];
        assert_eq!(numbers_of(status.as_doc()), expect.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(numbers_of(DocBuf::new().as_doc()), []);
    }

    #[test]
    fn json_becomes_a_command() {
        let field = |name: &str, value| (name.to_owned(), value);
        let inner = json!({"a": true, "list": [{"b": 1.5}]});
        let command =
            command_of(&[field("fsync", json!(1)), field("big", json!(5_000_000_000i64)), field("inner", inner)]);
        assert_eq!(command.as_doc().first().map(|(name, _)| name), Some("fsync"));
        let list: ArrayBuf = [&DocBuf::new().with("b", 1.5)].into_iter().collect();
        let inner = DocBuf::new().with("a", true).with("list", &list);
        assert!(matches!(command.as_doc().get("fsync"), Some(ValueRef::Int32(1))));
        assert!(matches!(command.as_doc().get("big"), Some(ValueRef::Int64(5_000_000_000))));
        assert!(
            matches!(command.as_doc().get("inner"), Some(ValueRef::Document(doc)) if doc.as_bytes() == inner.as_bytes())
        );
    }
}
