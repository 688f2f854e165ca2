//! JSON values as YAML in block form, and back: run.yaml is for people first.

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Number, Value};

/// In every mapping the keys of `order` come first, in that order; the others follow by name.
pub(super) fn emit(value: &Value, order: &[&str]) -> String {
    let mut emitter = Emitter { order, out: String::new() };
    match value {
        Value::Object(_) | Value::Array(_) if !is_empty(value) => emitter.block(value, 0),
        _ => emitter.line(&inline(value)),
    }
    emitter.out
}

struct Emitter<'a> {
    order: &'a [&'a str],
    out: String,
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    }
}

impl Emitter<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn indent(&mut self, by: usize) {
        self.out.extend(std::iter::repeat_n(' ', by));
    }

    /// A mapping or a list on lines of its own, the first line already indented.
    fn block(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Object(map) => {
                let mut entries: Vec<(&String, &Value)> = map.iter().collect();
                let rank = |key: &str| self.order.iter().position(|first| *first == key).unwrap_or(usize::MAX);
                entries.sort_by_key(|(key, _)| rank(key));
                for (n, (key, value)) in entries.into_iter().enumerate() {
                    self.indent(if n > 0 { indent } else { 0 });
                    self.out.push_str(&plain_or_quoted(key));
                    self.out.push(':');
                    self.behind_key(value, indent);
                }
            }
            Value::Array(list) => {
                for (n, value) in list.iter().enumerate() {
                    self.indent(if n > 0 { indent } else { 0 });
                    self.out.push_str("- ");
                    if is_inline(value) {
                        self.line(&inline(value));
                    } else {
                        self.block(value, indent + 2);
                    }
                }
            }
            _ => {}
        }
    }

    fn behind_key(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) if is_literal(text) => {
                self.line(" |");
                for line in text.lines() {
                    self.indent(if line.is_empty() { 0 } else { indent + 2 });
                    self.line(line);
                }
            }
            _ if is_inline(value) => {
                self.out.push(' ');
                self.line(&inline(value));
            }
            _ => {
                self.out.push('\n');
                self.indent(indent + 2);
                self.block(value, indent + 2);
            }
        }
    }
}

/// Returns true for scalars, empty values, and lists of scalars, which are written on one line.
fn is_inline(value: &Value) -> bool {
    is_scalar_list(value) || is_empty(value)
}

fn is_scalar_list(value: &Value) -> bool {
    matches!(value, Value::Array(list) if list.iter().all(|item| !item.is_array() && !item.is_object()))
}

/// Returns true for several lines that a literal block can represent unchanged.
fn is_literal(text: &str) -> bool {
    let ends = text.ends_with('\n') && !text.ends_with("\n\n") && text.lines().count() > 1;
    ends && !text.starts_with([' ', '\n']) && text.chars().all(|c| c == '\n' || !c.is_control())
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => plain_or_quoted(text),
        Value::Array(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// JSON's quoting is YAML's.
fn plain_or_quoted(text: &str) -> String {
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if word { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

pub(super) fn parse(text: &str) -> Result<Value, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    match documents.as_slice() {
        [document] => value_of(document),
        _ => Err("it is not one YAML document".to_owned()),
    }
}

fn value_of(node: &Yaml<'_>) -> Result<Value, String> {
    Ok(match node {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        Yaml::Value(Scalar::Integer(value)) => Value::Number((*value).into()),
        Yaml::Value(Scalar::FloatingPoint(value)) => {
            Number::from_f64(value.into_inner()).map_or(Value::Null, Value::Number)
        }
        Yaml::Value(Scalar::String(value)) => Value::String(value.to_string()),
        Yaml::Sequence(list) => Value::Array(list.iter().map(value_of).collect::<Result<_, _>>()?),
        Yaml::Mapping(mapping) => {
            let mut map = Map::new();
            for (key, value) in mapping {
                let key = key.as_str().ok_or("a key is no text")?;
                map.insert(key.to_owned(), value_of(value)?);
            }
            Value::Object(map)
        }
        _ => return Err("it has tags or aliases".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_emitted_is_read_back() {
        for value in [
            json!({"a": 1, "b": [1, 2.5, "x y", "yes", "1", "", null, true], "c": {}, "d": []}),
            json!({"list": [{"name": "a", "inner": {"k": "v: w"}}, {"name": "-b"}], "nested": [[1, [2]], [{"a": [3]}]]}),
            json!({"text": "one\n  two\n\nthree # four\n", "odd": " x\ny\n", "tail": "a\n\n", "tab": "a\tb\nc\n"}),
            json!({"quote\"d": "ü \u{7} \\ \u{2028}", "~": "~", "12": "#", "big": 18_000_000, "e": 1e300}),
            json!({"deep": {"text": "first\nsecond\n", "more": {"x": -1}}}),
            json!({}),
            json!([]),
        ] {
            let text = emit(&value, &[]);
            assert_eq!(parse(&text).as_ref(), Ok(&value), "{text}");
        }
    }

    #[test]
    fn it_is_made_for_reading() {
        let value =
            json!({"experiment": "kv", "clients": [1, 2], "systems": [{"name": "lmdb", "steps": [{"t": 1.5}]}]});
        let text = "experiment: kv\nclients: [1, 2]\nsystems:\n  - name: lmdb\n    steps:\n      - t: 1.5\n";
        assert_eq!(emit(&value, &["experiment", "clients"]), text);
    }
}
