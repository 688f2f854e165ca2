//! `{ $unwind: "$path" }` or `{ $unwind: { path, includeArrayIndex, preserveNullAndEmptyArrays } }`: one document per
//! element of an array. What is no array counts as an array of one.

use arbor_bson::{Doc, DocBuf, Value, ValueRef};

use crate::document::with_value;
use crate::{Error, Path, Result, field_path, text};

#[derive(Clone, Debug)]
pub struct Unwind {
    pub path: Path,
    /// The field that takes the position of the element.
    pub index: Option<Path>,
    /// Documents without elements are kept.
    pub preserve: bool,
}

impl Unwind {
    pub fn parse(spec: ValueRef) -> Result<Unwind> {
        let (mut path, mut index, mut preserve) = (None, None, false);
        match spec {
            ValueRef::String(text) => path = Some(text),
            ValueRef::Document(doc) => {
                for (name, value) in doc {
                    match name {
                        "path" => path = Some(text_of("a string as the path for", 28808, value)?),
                        "includeArrayIndex" => index = Some(parse_index(value)?),
                        "preserveNullAndEmptyArrays" => preserve = parse_preserve(value)?,
                        _ => {
                            let message = format!("unrecognized option to $unwind stage: {name}");
                            return Err(Error::location(28811, message));
                        }
                    }
                }
            }
            _ => {
                let found = text::type_name(Some(spec));
                let message =
                    format!("expected either a string or an object as specification for $unwind stage, got {found}");
                return Err(Error::location(15981, message));
            }
        }
        let path = path
            .filter(|path| !path.is_empty())
            .ok_or_else(|| Error::location(28812, "no path specified to $unwind stage"))?;
        let bare = path.strip_prefix('$').ok_or_else(|| {
            let message = format!("path option to $unwind stage should be prefixed with a '$': {path}");
            Error::location(28818, message)
        })?;
        Ok(Unwind { path: field_path::parse(bare)?, index, preserve })
    }

    /// Returns the documents that `doc` is split into.
    pub fn split(&self, doc: Doc) -> Unwound {
        match self.path.get_strict(doc) {
            Some(ValueRef::Array(array)) if array.is_empty() => {
                let emptied = || self.with_index(with_value(doc, self.path.components(), None), ValueRef::Null);
                Unwound::One(self.preserve.then(emptied))
            }
            Some(ValueRef::Array(array)) => Unwound::Each(array.iter().map(ValueRef::to_value).collect()),
            None | Some(ValueRef::Null | ValueRef::Undefined) if !self.preserve => Unwound::One(None),
            _ => Unwound::One(Some(self.with_index(doc.to_buf(), ValueRef::Null))),
        }
    }

    /// The document of one element.
    pub fn with_element(&self, doc: Doc, at: usize, element: &Value) -> DocBuf {
        let unwound = with_value(doc, self.path.components(), Some(element.as_ref()));
        self.with_index(unwound, ValueRef::Int64(at as i64))
    }

    fn with_index(&self, doc: DocBuf, at: ValueRef) -> DocBuf {
        match &self.index {
            Some(path) => with_value(doc.as_doc(), path.components(), Some(at)),
            None => doc,
        }
    }
}

/// The documents that one becomes.
#[derive(Debug)]
pub enum Unwound {
    /// At most one.
    One(Option<DocBuf>),
    /// One for each of these elements: [`Unwind::with_element`]. All at once may take many times the document's memory.
    Each(Vec<Value>),
}

fn text_of<'v>(what: &str, code: i32, value: ValueRef<'v>) -> Result<&'v str> {
    match value {
        ValueRef::String(text) => Ok(text),
        other => {
            let found = text::type_name(Some(other));
            Err(Error::location(code, format!("expected {what} $unwind stage, got {found}")))
        }
    }
}

fn parse_index(value: ValueRef) -> Result<Path> {
    let text = text_of("a non-empty string for the includeArrayIndex  option to", 28810, value)?;
    if text.is_empty() {
        let message = "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got string";
        return Err(Error::location(28810, message));
    }
    if text.starts_with('$') {
        let message = format!("includeArrayIndex option to $unwind stage should not be prefixed with a '$': {text}");
        return Err(Error::location(28822, message));
    }
    field_path::parse(text)
}

fn parse_preserve(value: ValueRef) -> Result<bool> {
    match value {
        ValueRef::Bool(preserve) => Ok(preserve),
        other => {
            let found = text::type_name(Some(other));
            let message =
                format!("expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {found}");
            Err(Error::location(28809, message))
        }
    }
}
