//! Keeping and dropping fields.
//!
//! Documents inside arrays (and arrays of arrays) are treated like a document in their place. Under an inclusion what is
//! neither document nor array has no such field and goes; under an exclusion it stays.

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, ValueRef};

use crate::expression::slice_range;
use crate::path::Component;
use crate::{Error, Path, Result};

/// The fields that are kept (`inclusive`) or dropped.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub inclusive: bool,
    pub fields: Fields,
}

/// Rules by field name, in the order they were written.
#[derive(Clone, Debug, Default)]
pub struct Fields(pub Vec<(Box<str>, Rule)>);

/// What happens to a field that is named.
#[derive(Clone, Debug)]
pub enum Rule {
    Keep,
    Drop,
    /// Kept, and cut when it is an array.
    Slice {
        first: i64,
        count: Option<usize>,
    },
    Inside(Fields),
}

impl Fields {
    fn rule(&self, name: &str) -> Option<&Rule> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, rule)| rule)
    }

    /// Sets the rule at a path. Requires that no path of another rule collides with it.
    pub fn set(&mut self, path: &[Component], rule: Rule) {
        let Some((last, parents)) = path.split_last() else { return };
        self.open(parents).0.push((last.name.clone(), rule));
    }

    /// The fields inside the one at a path, which shows as a document without fields so far.
    pub fn open(&mut self, path: &[Component]) -> &mut Fields {
        let Some((first, rest)) = path.split_first() else { return self };
        let known = self.0.iter().position(|(known, _)| *known == first.name);
        let at = known.unwrap_or_else(|| {
            self.0.push((first.name.clone(), Rule::Inside(Fields::default())));
            self.0.len() - 1
        });
        match self.0.get_mut(at) {
            Some((_, Rule::Inside(inner))) => inner.open(rest),
            _ => unreachable!("paths that collide were refused"),
        }
    }
}

impl Selection {
    pub fn is_identity(&self) -> bool {
        !self.inclusive && self.fields.0.is_empty()
    }

    pub fn apply(&self, doc: Doc) -> DocBuf {
        if self.is_identity() {
            return doc.to_buf();
        }
        self.document(doc, &self.fields)
    }

    fn document(&self, doc: Doc, fields: &Fields) -> DocBuf {
        let mut out = DocBuf::new();
        for (name, value) in doc {
            match (fields.rule(name), value) {
                (None, _) if self.inclusive => {}
                (Some(Rule::Drop), _) => {}
                (None | Some(Rule::Keep), _) => drop(out.append(name, value)),
                (Some(Rule::Slice { first, count }), ValueRef::Array(array)) => {
                    out.append(name, &slice(array, *first, *count));
                }
                (Some(Rule::Slice { .. }), _) => drop(out.append(name, value)),
                (Some(Rule::Inside(inner)), ValueRef::Document(doc)) => {
                    out.append(name, &self.document(doc, inner));
                }
                (Some(Rule::Inside(inner)), ValueRef::Array(array)) => {
                    out.append(name, &self.array(array, inner));
                }
                (Some(Rule::Inside(_)), _) if self.inclusive => {}
                (Some(Rule::Inside(_)), _) => drop(out.append(name, value)),
            }
        }
        out
    }

    fn array(&self, array: Array, fields: &Fields) -> ArrayBuf {
        let mut out = ArrayBuf::new();
        for value in array.iter() {
            match value {
                ValueRef::Document(doc) => drop(out.push(&self.document(doc, fields))),
                ValueRef::Array(inner) => drop(out.push(&self.array(inner, fields))),
                _ if self.inclusive => {}
                other => drop(out.push(other)),
            }
        }
        out
    }

    /// The paths kept as they are; `None` when some are cut.
    pub fn plain_paths(&self) -> Option<Vec<Path>> {
        let mut paths = Vec::new();
        collect(&self.fields, "", &mut paths).then_some(paths)
    }
}

fn collect(fields: &Fields, prefix: &str, paths: &mut Vec<Path>) -> bool {
    fields.0.iter().all(|(name, rule)| {
        let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
        match rule {
            Rule::Keep => paths.push(Path::new(&path)),
            Rule::Drop => {}
            Rule::Slice { .. } => return false,
            Rule::Inside(inner) => return collect(inner, &path, paths),
        }
        true
    })
}

fn slice(array: Array, first: i64, count: Option<usize>) -> ArrayBuf {
    let (skip, take) = slice_range(array.len(), first, count);
    array.iter().skip(skip).take(take).collect()
}

/// The document with the first array on the path cut to the element at `position`.
pub fn cut_to_position(doc: Doc, path: &[Component], position: Option<usize>) -> Result<DocBuf> {
    let mut out = DocBuf::new();
    let (first, rest) = path.split_first().map_or(("", path), |(first, rest)| (&*first.name, rest));
    for (name, value) in doc {
        match value {
            ValueRef::Array(array) if name == first => {
                let element = position.and_then(|position| array.get(position)).ok_or_else(|| {
                    let message = "positional operator '.$' couldn't find a matching element in the array";
                    Error::location(51246, message)
                })?;
                out.append(name, &[element].into_iter().collect::<ArrayBuf>());
            }
            ValueRef::Document(inner) if name == first && !rest.is_empty() => {
                out.append(name, &cut_to_position(inner, rest, position)?);
            }
            _ => drop(out.append(name, value)),
        }
    }
    Ok(out)
}
