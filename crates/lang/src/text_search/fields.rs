//! The strings of a document that are searched.
//!
//! A path leads through documents and arrays; what stands there is a string or an array of strings. A wildcard takes every
//! string. A document says its language in a field of its own, and documents in it may have others.

use arbor_bson::{Doc, ValueRef};

use super::language::Language;
use super::score::{self, TermScores};
use crate::{Error, Result};

/// A path and how much its words count.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// Dotted; `$**` is every string.
    pub path: String,
    pub weight: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TextFields {
    weights: Vec<Weight>,
    /// Weight of the strings whose path has none of its own.
    every: Option<f64>,
    default_language: Language,
    /// Name of the field that says a document's language.
    language_field: String,
}

/// The weights are not NaN.
impl Eq for TextFields {}

/// One string with what counts for it.
pub struct Text<'d> {
    pub text: &'d str,
    pub language: Language,
    pub weight: f64,
}

const WILDCARD: &str = "$**";

impl TextFields {
    pub fn new(weights: Vec<Weight>, default_language: Language, language_field: &str) -> TextFields {
        let every = weights.iter().find(|own| own.path == WILDCARD).map(|own| own.weight);
        let weights = weights.into_iter().filter(|own| own.path != WILDCARD).collect();
        TextFields { weights, every, default_language, language_field: language_field.to_owned() }
    }

    pub fn default_language(&self) -> Language {
        self.default_language
    }

    /// Whether every string is searched.
    pub fn is_wildcard(&self) -> bool {
        self.every.is_some()
    }

    /// Terms and scores of a document. Errors: a language that is unknown, or is no string.
    pub fn scores(&self, doc: Doc<'_>) -> Result<TermScores> {
        score::of_document(self, doc)
    }

    /// Calls `each` with every string, in the document's order.
    pub fn visit<'d>(&self, doc: Doc<'d>, each: &mut dyn FnMut(Text<'d>)) -> Result<()> {
        self.document("", doc, self.default_language, each)
    }

    /// Recursion is bounded by the depth of the document.
    fn document<'d>(&self, prefix: &str, doc: Doc<'d>, outer: Language, each: &mut dyn FnMut(Text<'d>)) -> Result<()> {
        let language = self.language_of(doc, outer)?;
        for (name, value) in doc {
            let joined;
            let path = if prefix.is_empty() {
                name
            } else {
                joined = format!("{prefix}.{name}");
                &joined
            };
            if self.every.is_some() && name == self.language_field {
                continue;
            }
            match value {
                ValueRef::Array(array) if self.leads_somewhere(path) => {
                    array.iter().try_for_each(|element| self.value(path, element, language, each))?;
                }
                value => self.value(path, value, language, each)?,
            }
        }
        Ok(())
    }

    fn value<'d>(
        &self,
        path: &str,
        value: ValueRef<'d>,
        language: Language,
        each: &mut dyn FnMut(Text<'d>),
    ) -> Result<()> {
        match value {
            ValueRef::String(text) => {
                if let Some(weight) = self.weight_of(path) {
                    each(Text { text, language, weight });
                }
                Ok(())
            }
            ValueRef::Document(inner) if self.leads_somewhere(path) => self.document(path, inner, language, each),
            ValueRef::Array(inner) if self.every.is_some() => {
                inner.iter().try_for_each(|element| self.value(path, element, language, each))
            }
            _ => Ok(()),
        }
    }

    fn weight_of(&self, path: &str) -> Option<f64> {
        self.weights.iter().find(|own| own.path == path).map(|own| own.weight).or(self.every)
    }

    /// Strings at or below the path may be searched.
    fn leads_somewhere(&self, path: &str) -> bool {
        let below =
            |own: &Weight| own.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.every.is_some() || self.weights.iter().any(below)
    }

    fn language_of(&self, doc: Doc<'_>, outer: Language) -> Result<Language> {
        match doc.get(&self.language_field) {
            None => Ok(outer),
            Some(ValueRef::String(name)) => Language::of_name(name)
                .ok_or_else(|| Error::location(17262, format!("language override unsupported: {name}"))),
            Some(_) => Err(Error::location(17261, "found language override field in document with non-string type")),
        }
    }
}
