//! One shape: a command and the unit of its statistics. `shapes.yaml` is read into these.

use arbor_bson::{ArrayBuf, DocBuf, Value};
use saphyr::{LoadableYamlNode, Scalar, Yaml};

use crate::{Error, Result};

const SHAPES: &str = include_str!("shapes.yaml");

/// Number of documents that a run of the shape counts for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Counts {
    /// The number of returned documents.
    Returned,
    Documents(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub name: String,
    pub command: DocBuf,
    pub counts: Counts,
    /// There is no index for it.
    pub scans: bool,
    /// It deletes documents, which are inserted again before each run.
    pub refills: bool,
}

impl Shape {
    /// Returns all shapes for a data set of `documents` documents.
    pub(super) fn all(documents: u64) -> Result<Vec<Shape>> {
        let loaded = Yaml::load_from_str(SHAPES).map_err(|error| Error::Usage(format!("shapes.yaml: {error}")))?;
        let shapes = loaded.first().and_then(Yaml::as_vec).ok_or_else(|| bad("no list"))?;
        shapes.iter().map(|shape| Shape::read(shape, documents)).collect()
    }

    fn read(yaml: &Yaml<'_>, documents: u64) -> Result<Shape> {
        let name = yaml["name"].as_str().ok_or_else(|| bad("a shape without name"))?.to_owned();
        let Value::Document(command) = value(&yaml["command"], documents)? else { return Err(bad(&name)) };
        let counts = match value(&yaml["counts"], documents)? {
            Value::String(text) if text == "returned" => Counts::Returned,
            Value::String(text) if text == "all" => Counts::Documents(documents),
            Value::Int32(count) => Counts::Documents(count as u64),
            Value::Int64(count) => Counts::Documents(count as u64),
            _ => return Err(bad(&name)),
        };
        let flag = |field: &str| yaml.as_mapping_get(field).and_then(Yaml::as_bool).unwrap_or(false);
        Ok(Shape { counts, scans: flag("scans"), refills: flag("refills"), name, command })
    }

    /// `find`, `aggregate` and so on.
    pub(super) fn verb(&self) -> &str {
        self.command.as_doc().first().map_or("", |(name, _)| name)
    }
}

fn bad(what: &str) -> Error {
    Error::Usage(format!("shapes.yaml: {what}"))
}

fn value(yaml: &Yaml<'_>, documents: u64) -> Result<Value> {
    Ok(match yaml {
        Yaml::Value(Scalar::Integer(number)) => int(*number),
        Yaml::Value(Scalar::FloatingPoint(number)) => Value::Double(number.into_inner()),
        Yaml::Value(Scalar::Boolean(flag)) => Value::Bool(*flag),
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::String(text)) => scaled(text, documents)?,
        Yaml::Sequence(items) => {
            let mut array = ArrayBuf::new();
            for item in items {
                array.push(&value(item, documents)?);
            }
            Value::Array(array)
        }
        Yaml::Mapping(fields) => {
            let mut doc = DocBuf::new();
            for (name, field) in fields {
                doc.append(name.as_str().ok_or_else(|| bad("a field without name"))?, &value(field, documents)?);
            }
            Value::Document(doc)
        }
        other => return Err(bad(&format!("{other:?}"))),
    })
}

fn int(number: i64) -> Value {
    i32::try_from(number).map_or(Value::Int64(number), Value::Int32)
}

/// `=1/10`: a tenth of the documents; `=thousand`: a thousand of their keys.
fn scaled(text: &str, documents: u64) -> Result<Value> {
    let Some(rule) = text.strip_prefix('=') else { return Ok(Value::String(text.to_owned())) };
    if rule == "thousand" {
        let step = (documents / 1000).max(1);
        let keys: ArrayBuf = (0..1000).map(|n| (n * step) as i32).collect();
        return Ok(Value::Array(keys));
    }
    let parts = rule.split_once('/').and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?)));
    let (part, whole) = parts.ok_or_else(|| bad(text))?;
    Ok(int((documents * part / whole.max(1)) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_are_read() {
        let shapes = Shape::all(1_000_000).unwrap();
        assert!(shapes.len() >= 25, "{}", shapes.len());
        let point = &shapes[0];
        assert_eq!(point.command.as_doc().to_string(), r#"{ find: "docs", filter: { _id: 500000 } }"#);
        assert_eq!((point.verb(), point.counts), ("find", Counts::Returned));
        assert!(shapes.iter().any(|shape| shape.counts == Counts::Documents(100_000)));
        let names: std::collections::BTreeSet<&str> = shapes.iter().map(|shape| shape.name.as_str()).collect();
        assert_eq!(names.len(), shapes.len());
    }
}
