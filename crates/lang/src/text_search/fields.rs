//! The strings of a document that are searched.
//!
//! A path leads through documents and arrays to a string or an array of strings. A wildcard takes every
//! string. A document says its language in a field of its own, and documents in it may have others.

use arbor_bson::{Doc, Elements, ValueRef};

use super::language::Language;
use super::score::{self, TermScores};
use crate::stop::tick;
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

/// A document or an array whose elements are visited.
struct Open<'d> {
    elements: Elements<'d>,
    is_array: bool,
    /// Bytes of the path that leads to it.
    path_len: usize,
    language: Language,
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

    /// Returns true if every string is searched.
    pub fn is_wildcard(&self) -> bool {
        self.every.is_some()
    }

    /// Terms and scores of a document. Errors: a language that is unknown, or is no string.
    pub fn scores(&self, doc: Doc<'_>) -> Result<TermScores> {
        score::of_document(self, doc)
    }

    /// Calls `each` with every string, in the document's order. Walks with a stack on the heap: an index build may read
    /// documents of versions that did not limit their depth.
    pub fn visit<'d>(&self, doc: Doc<'d>, each: &mut dyn FnMut(Text<'d>)) -> Result<()> {
        let mut path = String::new();
        let mut open = vec![self.open(doc, self.default_language, 0)?];
        while let Some(innermost) = open.last_mut() {
            tick()?;
            path.truncate(innermost.path_len);
            let Some((name, value)) = innermost.elements.next() else {
                open.pop();
                continue;
            };
            let (language, in_array) = (innermost.language, innermost.is_array);
            if !in_array {
                if self.every.is_some() && name == self.language_field {
                    continue;
                }
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            match value {
                ValueRef::String(text) => {
                    if let Some(weight) = self.weight_of(&path) {
                        each(Text { text, language, weight });
                    }
                }
                ValueRef::Document(inner) if self.leads_somewhere(&path) => {
                    open.push(self.open(inner, language, path.len())?);
                }
                ValueRef::Array(inner) if self.every.is_some() || (!in_array && self.leads_somewhere(&path)) => {
                    let elements = inner.as_doc().iter();
                    open.push(Open { elements, is_array: true, path_len: path.len(), language });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn open<'d>(&self, doc: Doc<'d>, outer: Language, path_len: usize) -> Result<Open<'d>> {
        Ok(Open { elements: doc.iter(), is_array: false, path_len, language: self.language_of(doc, outer)? })
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
