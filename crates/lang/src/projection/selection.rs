//! Keeping and dropping fields.
//!
//! Documents inside arrays (and arrays of arrays) are treated like a document in their place. Under an inclusion what is
//! neither document nor array has no such field and goes; under an exclusion it stays.

use arbor_bson::{Array, ArrayBuf, DEPTH_MAX, Doc, DocBuf, ValueRef};

use crate::by_name::ByName;
use crate::expression::slice_range;
use crate::path::Component;
use crate::stop::tick;
use crate::{Error, Path, Result, depth};

/// The fields that are kept (`inclusive`) or dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub inclusive: bool,
    pub fields: Fields,
}

/// Rules by field name, in the order they were written.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(ByName<Rule>);

/// Treatment of a field that is named.
#[derive(Clone, Debug)]
pub(super) enum Rule {
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
    /// Sets the rule at a path. Requires that no path of another rule collides with it.
    pub(super) fn set(&mut self, path: &[Component], rule: Rule) {
        let Some((last, parents)) = path.split_last() else { return };
        self.open(parents).0.add(&last.name, rule);
    }

    /// The fields inside the one at a path, which shows as a document without fields so far.
    pub(super) fn open(&mut self, path: &[Component]) -> &mut Fields {
        let mut fields = self;
        for component in path {
            match fields.0.get_or_add(&component.name, || Rule::Inside(Fields::default())) {
                Rule::Inside(inner) => fields = inner,
                _ => unreachable!("paths that collide were refused"),
            }
        }
        fields
    }
}

impl Selection {
    pub(super) fn is_identity(&self) -> bool {
        !self.inclusive && self.fields.0.is_empty()
    }

    pub(super) fn apply(&self, doc: Doc) -> Result<DocBuf> {
        if self.is_identity() {
            return Ok(doc.to_buf());
        }
        self.document(doc, &self.fields, DEPTH_MAX)
    }

    /// `levels`: how many more the document may have.
    fn document(&self, doc: Doc, fields: &Fields, levels: usize) -> Result<DocBuf> {
        let levels = depth::below(levels)?;
        let mut out = DocBuf::new();
        for (name, value) in doc {
            tick()?;
            match (fields.0.get(name), value) {
                (None, _) if self.inclusive => {}
                (Some(Rule::Drop), _) => {}
                (None | Some(Rule::Keep), _) => drop(out.append(name, value)),
                (Some(Rule::Slice { first, count }), ValueRef::Array(array)) => {
                    out.append(name, &slice(array, *first, *count));
                }
                (Some(Rule::Slice { .. }), _) => drop(out.append(name, value)),
                (Some(Rule::Inside(inner)), ValueRef::Document(doc)) => {
                    out.append(name, &self.document(doc, inner, levels)?);
                }
                (Some(Rule::Inside(inner)), ValueRef::Array(array)) => {
                    out.append(name, &self.array(array, inner, levels)?);
                }
                (Some(Rule::Inside(_)), _) if self.inclusive => {}
                (Some(Rule::Inside(_)), _) => drop(out.append(name, value)),
            }
        }
        Ok(out)
    }

    fn array(&self, array: Array, fields: &Fields, levels: usize) -> Result<ArrayBuf> {
        let levels = depth::below(levels)?;
        let mut out = ArrayBuf::new();
        for value in array.iter() {
            tick()?;
            match value {
                ValueRef::Document(doc) => drop(out.push(&self.document(doc, fields, levels)?)),
                ValueRef::Array(inner) => drop(out.push(&self.array(inner, fields, levels)?)),
                _ if self.inclusive => {}
                other => drop(out.push(other)),
            }
        }
        Ok(out)
    }

    /// The paths kept as they are; `None` when some are cut.
    pub(super) fn plain_paths(&self) -> Option<Vec<Path>> {
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
pub(super) fn cut_to_position(doc: Doc, path: &[Component], position: Option<usize>) -> Result<DocBuf> {
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
