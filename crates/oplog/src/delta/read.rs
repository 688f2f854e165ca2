//! A delta, section by section.

use arbor_bson::{Doc, ValueRef};

pub(super) struct DocumentDelta<'a> {
    pub removed: Doc<'a>,
    pub updated: Doc<'a>,
    pub inserted: Doc<'a>,
    pub inner: Vec<(&'a str, Doc<'a>)>,
}

pub(super) enum Step<'a> {
    Value(ValueRef<'a>),
    Inner(Doc<'a>),
}

pub(super) struct ArrayDelta<'a> {
    pub length: Option<usize>,
    /// Ascending, as written.
    pub steps: Vec<(usize, Step<'a>)>,
}

pub(super) enum Delta<'a> {
    Document(DocumentDelta<'a>),
    Array(ArrayDelta<'a>),
}

impl<'a> Delta<'a> {
    /// `None`: no delta.
    pub(super) fn read(delta: Doc<'a>) -> Option<Delta<'a>> {
        match delta.get("a") {
            Some(ValueRef::Bool(true)) => read_array(delta).map(Delta::Array),
            Some(_) => None,
            None => read_document(delta).map(Delta::Document),
        }
    }
}

fn read_document(delta: Doc<'_>) -> Option<DocumentDelta<'_>> {
    let nothing = Doc::empty();
    let mut read = DocumentDelta { removed: nothing, updated: nothing, inserted: nothing, inner: Vec::new() };
    for (name, value) in delta {
        let ValueRef::Document(section) = value else { return None };
        match name {
            "d" => read.removed = section,
            "u" => read.updated = section,
            "i" => read.inserted = section,
            _ => read.inner.push((name.strip_prefix('s')?, section)),
        }
    }
    Some(read)
}

fn read_array(delta: Doc<'_>) -> Option<ArrayDelta<'_>> {
    let mut read = ArrayDelta { length: None, steps: Vec::new() };
    for (name, value) in delta.iter().skip(1) {
        match (name, value) {
            ("l", ValueRef::Int32(length)) => read.length = Some(usize::try_from(length).ok()?),
            _ => {
                let step = match (name.as_bytes().first()?, value) {
                    (b'u', value) => Step::Value(value),
                    (b's', ValueRef::Document(inner)) => Step::Inner(inner),
                    _ => return None,
                };
                read.steps.push((name.get(1..)?.parse().ok()?, step));
            }
        }
    }
    Some(read)
}
