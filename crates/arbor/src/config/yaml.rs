//! The YAML form, flattened before anything is checked: nested and dotted keys may be mixed.

use saphyr::{LoadableYamlNode, Scalar, Yaml};

use super::Refused;

/// Its `(dotted key, value)` pairs in the order of the text.
pub(super) fn read(text: &str) -> Result<Vec<(String, String)>, Refused> {
    let documents = Yaml::load_from_str(text).map_err(|error| Refused(format!("cannot read it as YAML: {error}")))?;
    let mut pairs = Vec::new();
    match documents.as_slice() {
        [] => {}
        [document] => flatten("", document, &mut pairs)?,
        _ => return Err(Refused("it holds more than one YAML document".to_owned())),
    }
    Ok(pairs)
}

fn flatten(path: &str, node: &Yaml<'_>, pairs: &mut Vec<(String, String)>) -> Result<(), Refused> {
    match node {
        Yaml::Mapping(mapping) => {
            for (key, value) in mapping {
                let key = scalar(path, key)?;
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                flatten(&path, value, pairs)?;
            }
        }
        // A section without content ("net:") says nothing.
        Yaml::Value(Scalar::Null) => {}
        Yaml::Sequence(items) => {
            let texts = items.iter().map(|item| scalar(path, item)).collect::<Result<Vec<String>, Refused>>()?;
            pairs.push((path.to_owned(), texts.join(",")));
        }
        node if path.is_empty() => return Err(Refused(format!("it holds no settings but {node:?}"))),
        node => pairs.push((path.to_owned(), scalar(path, node)?)),
    }
    Ok(())
}

fn scalar(path: &str, node: &Yaml<'_>) -> Result<String, Refused> {
    match node {
        Yaml::Value(Scalar::String(text)) => Ok(text.to_string()),
        Yaml::Value(Scalar::Boolean(value)) => Ok(value.to_string()),
        Yaml::Value(Scalar::Integer(value)) => Ok(value.to_string()),
        Yaml::Value(Scalar::FloatingPoint(value)) => Ok(value.to_string()),
        Yaml::Value(Scalar::Null) => Ok(String::new()),
        _ => Err(Refused(format!("{path}: expected a plain value"))),
    }
}
