//! A mapping of a YAML file whose keys are known. Whatever is wrong is named with its line.

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Number, Value};

use crate::{Error, Result};

/// A mapping and its position in a file.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    /// The file, for messages.
    file: &'a str,
    node: &'a MarkedYaml<'a>,
}

/// The one document of a file, for [`Section::of`].
pub(super) fn parse<'a>(file: &str, text: &'a str) -> Result<MarkedYaml<'a>> {
    let mut documents = MarkedYaml::load_from_str(text)
        .map_err(|error| Error::Usage(format!("{file}:{}: {}", error.marker().line(), error.info())))?;
    match (documents.pop(), documents.is_empty()) {
        (Some(document), true) => Ok(document),
        _ => Err(Error::Usage(format!("{file}: expected a single YAML document"))),
    }
}

impl<'a> Section<'a> {
    pub(super) fn of(file: &'a str, node: &'a MarkedYaml<'a>) -> Result<Section<'a>> {
        let section = Section { file, node };
        if section.node.data.as_mapping().is_none() {
            return Err(section.wrong_at(node, "expected a mapping"));
        }
        Ok(section)
    }

    fn wrong_at(&self, node: &MarkedYaml<'_>, what: &str) -> Error {
        Error::Usage(format!("{}:{}: {what}", self.file, node.span.start.line()))
    }

    /// Something wrong with a key; it is named with the line of its value, or of the mapping when it is missing.
    pub(super) fn wrong(&self, key: &str, what: &str) -> Error {
        self.wrong_at(self.get(key).unwrap_or(self.node), &format!("{key}: {what}"))
    }

    /// Returns the error of another parser with its line: if the text names a key of this mapping in backquotes or quotes,
    /// the line is that of the key.
    pub(super) fn wrong_within(&self, text: &str) -> Error {
        let words = text.split(['`', '"']).skip(1).step_by(2);
        let named = words.filter_map(|word| self.get(word)).next();
        self.wrong_at(named.unwrap_or(self.node), text)
    }

    /// Refuses keys that are not `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        for key in self.node.data.as_mapping().into_iter().flatten().map(|(key, _)| key) {
            let name = key.data.as_str().unwrap_or("?");
            if !known.contains(&name) {
                let what = format!("unknown key {name:?}; known are {}", known.join(", "));
                return Err(self.wrong_at(key, &what));
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a MarkedYaml<'a>> {
        let mapping = self.node.data.as_mapping()?;
        mapping.iter().find(|(name, _)| name.data.as_str() == Some(key)).map(|(_, value)| value)
    }

    pub(super) fn section(&self, key: &str) -> Result<Option<Section<'a>>> {
        self.get(key).map(|node| Section::of(self.file, node)).transpose()
    }

    /// The mappings of a list.
    pub(super) fn sections(&self, key: &str) -> Result<Vec<Section<'a>>> {
        self.list(key)?.iter().map(|node| Section::of(self.file, node)).collect()
    }

    pub(super) fn list(&self, key: &str) -> Result<&'a [MarkedYaml<'a>]> {
        let Some(node) = self.get(key) else { return Ok(&[]) };
        match &node.data {
            YamlData::Sequence(list) => Ok(list),
            _ => Err(self.wrong(key, "expected a list")),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let Some(node) = self.get(key) else { return Ok(None) };
        node.data.as_str().map(Some).ok_or_else(|| self.wrong(key, "expected a string"))
    }

    pub(super) fn required(&self, key: &str) -> Result<&'a str> {
        self.text(key)?.ok_or_else(|| self.wrong(key, "is missing"))
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        let Some(node) = self.get(key) else { return Ok(false) };
        node.data.as_bool().ok_or_else(|| self.wrong(key, "expected true or false"))
    }

    pub(super) fn number<T: TryFrom<i64>>(&self, key: &str) -> Result<Option<T>> {
        let Some(node) = self.get(key) else { return Ok(None) };
        whole(node).map(Some).ok_or_else(|| self.wrong(key, "expected an integer in range"))
    }

    pub(super) fn numbers<T: TryFrom<i64>>(&self, key: &str) -> Result<Vec<T>> {
        let numbers = self.list(key)?.iter().map(whole);
        numbers.collect::<Option<_>>().ok_or_else(|| self.wrong(key, "expected a list of integers"))
    }

    /// Seconds, rates, factors: above zero or zero.
    pub(super) fn quantity(&self, key: &str) -> Result<Option<f64>> {
        let Some(node) = self.get(key) else { return Ok(None) };
        quantity(node).map(Some).ok_or_else(|| self.wrong(key, "expected a number of at least 0"))
    }

    pub(super) fn quantities(&self, key: &str) -> Result<Vec<f64>> {
        let numbers = self.list(key)?.iter().map(quantity);
        numbers.collect::<Option<_>>().ok_or_else(|| self.wrong(key, "expected a list of numbers of at least 0"))
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>> {
        let texts = self.list(key)?.iter().map(|node| node.data.as_str().map(str::to_owned));
        texts.collect::<Option<_>>().ok_or_else(|| self.wrong(key, "expected a list of strings"))
    }

    /// Returns names and nodes in the order of the file.
    pub(super) fn nodes(&self) -> Result<Vec<(&'a str, &'a MarkedYaml<'a>)>> {
        let entries = self.node.data.as_mapping().into_iter().flatten();
        let entry = |(key, node): (&'a MarkedYaml<'a>, &'a MarkedYaml<'a>)| {
            Ok((key.data.as_str().ok_or_else(|| self.wrong_at(key, "a key must be a string"))?, node))
        };
        entries.map(entry).collect()
    }

    /// Returns the mapping that one of the nodes is.
    pub(super) fn within(&self, node: &'a MarkedYaml<'a>) -> Result<Section<'a>> {
        Section::of(self.file, node)
    }

    /// Numbers of any sign.
    pub(super) fn floats(&self, key: &str) -> Result<Vec<f64>> {
        let number = |node: &MarkedYaml<'_>| {
            let number = node.data.as_floating_point().or_else(|| node.data.as_integer().map(|number| number as f64));
            number.filter(|number| number.is_finite())
        };
        let numbers = self.list(key)?.iter().map(number);
        numbers.collect::<Option<_>>().ok_or_else(|| self.wrong(key, "expected a list of numbers"))
    }

    /// Names and values in the order of the file.
    pub(super) fn entries(&self) -> Result<Vec<(String, Value)>> {
        let entries = self.node.data.as_mapping().into_iter().flatten();
        entries
            .map(|(key, node)| {
                let name = key.data.as_str().ok_or_else(|| self.wrong_at(key, "a key must be a string"))?;
                Ok((
                    name.to_owned(),
                    value(node).ok_or_else(|| self.wrong(name, "tags and aliases are not supported"))?,
                ))
            })
            .collect()
    }

    pub(super) fn map(&self) -> Result<Map<String, Value>> {
        Ok(self.entries()?.into_iter().collect())
    }
}

fn whole<T: TryFrom<i64>>(node: &MarkedYaml<'_>) -> Option<T> {
    node.data.as_integer().and_then(|number| T::try_from(number).ok())
}

fn quantity(node: &MarkedYaml<'_>) -> Option<f64> {
    let number = node.data.as_floating_point().or_else(|| node.data.as_integer().map(|number| number as f64));
    // A time has to fit a Duration too.
    number.filter(|number| (0.0..1e9).contains(number))
}

fn value(node: &MarkedYaml<'_>) -> Option<Value> {
    Some(match &node.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        YamlData::Value(Scalar::Integer(value)) => Value::Number((*value).into()),
        YamlData::Value(Scalar::FloatingPoint(value)) => Number::from_f64(value.into_inner()).map(Value::Number)?,
        YamlData::Value(Scalar::String(value)) => Value::String(value.to_string()),
        YamlData::Sequence(list) => Value::Array(list.iter().map(value).collect::<Option<_>>()?),
        YamlData::Mapping(mapping) => {
            let entry =
                |(key, node): (&MarkedYaml<'_>, &MarkedYaml<'_>)| Some((key.data.as_str()?.to_owned(), value(node)?));
            Value::Object(mapping.iter().map(entry).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
