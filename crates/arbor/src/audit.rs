//! The audit as the options want it.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, DocBuf, Value};
use arbor_command::{Audit, AuditOptions};
use saphyr::{LoadableYamlNode, Scalar, Yaml};

use crate::config::{AuditDestination, Settings};
use crate::failure::{BAD_OPTIONS, Failure};

/// None: nothing is audited.
pub(crate) fn open(settings: &Settings) -> Result<Option<Arc<Audit>>, Failure> {
    let refused = |reason: String| Failure::new(BAD_OPTIONS, reason);
    let audit = &settings.audit;
    let Some(destination) = audit.destination else {
        let given = audit.path.is_some() || audit.filter.is_some();
        return match given {
            true => Err(refused("auditLog.destination is missing, without which nothing is audited".to_owned())),
            false => Ok(None),
        };
    };
    let path = match (destination, &audit.path) {
        (AuditDestination::File, Some(path)) => Some(path.clone()),
        (AuditDestination::File, None) => return Err(refused("auditLog.path is missing".to_owned())),
        (AuditDestination::Console, Some(_)) => {
            return Err(refused("auditLog.path is for the destination file".to_owned()));
        }
        (AuditDestination::Console, None) if audit.bson => {
            return Err(refused("auditLog.format: BSON needs the destination file".to_owned()));
        }
        (AuditDestination::Console, None) => None,
    };
    let filter = audit.filter.as_deref().map(filter).transpose().map_err(refused)?;
    let options = AuditOptions { path, bson: audit.bson, filter };
    Ok(Some(Arc::new(Audit::open(options).map_err(refused)?)))
}

/// Reads a filter: JSON, or what MongoDB's manual shows, with names that are not quoted. Both are YAML.
fn filter(text: &str) -> Result<DocBuf, String> {
    let wrong = |reason: &dyn std::fmt::Display| format!("auditLog.filter: {reason}");
    let documents = Yaml::load_from_str(text).map_err(|error| wrong(&error))?;
    match documents.as_slice() {
        [mapping @ Yaml::Mapping(_)] => match value(mapping) {
            Some(Value::Document(doc)) => Ok(doc),
            _ => Err(wrong(&"it is no document")),
        },
        _ => Err(wrong(&"it is no document")),
    }
}

fn value(node: &Yaml<'_>) -> Option<Value> {
    Some(match node {
        Yaml::Mapping(mapping) => {
            let mut doc = DocBuf::new();
            for (key, inner) in mapping {
                let Yaml::Value(Scalar::String(key)) = key else { return None };
                doc.append(key, &value(inner)?);
            }
            Value::Document(doc)
        }
        Yaml::Sequence(items) => {
            let mut array = ArrayBuf::new();
            for item in items {
                array.push(&value(item)?);
            }
            Value::Array(array)
        }
        Yaml::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        Yaml::Value(Scalar::Integer(number)) => i32::try_from(*number).map_or(Value::Int64(*number), Value::Int32),
        Yaml::Value(Scalar::FloatingPoint(number)) => Value::Double(**number),
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::String(text)) => match text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
            Some(pattern) => Value::Regex { pattern: pattern.to_owned(), options: String::new() },
            None => Value::String(text.to_string()),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::extjson::{self, Form};

    #[test]
    fn filters_are_json_or_as_the_manual_writes_them() {
        for (text, expect) in [
            (
                "{ atype: { $in: [ \"createCollection\", \"dropCollection\" ] } }",
                r#"{"atype":{"$in":["createCollection","dropCollection"]}}"#,
            ),
            (
                "{\"atype\": \"authenticate\", \"param.db\": \"test\", \"result\": 0}",
                r#"{"atype":"authenticate","param.db":"test","result":0}"#,
            ),
            (
                "{ \"param.ns\": /^test/, roles: { $size: 0 } }",
                r#"{"param.ns":{"$regularExpression":{"pattern":"^test","options":""}},"roles":{"$size":0}}"#,
            ),
        ] {
            let shown = extjson::doc(filter(text).unwrap().as_doc(), Form::Relaxed).to_string();
            assert_eq!(shown.replace(' ', ""), expect.replace(' ', ""), "{text}");
        }
        for bad in ["", "[1]", "text", "{ a: ", "{a: 1}\n---\n{b: 1}"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
