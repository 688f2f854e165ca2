//! `$mergeObjects`: documents laid over each other; later fields win, null and missing are skipped.
//!
//! ```text
//! { $mergeObjects: [{ a: 1, b: 1 }, { b: 2, c: 3 }] } => { a: 1, b: 2, c: 3 }
//! { $mergeObjects: ["$x", { a: 1 }] } => { a: 1 }
//! { $mergeObjects: "$x" } on { x: { a: 1 } } => { a: 1 }
//! { $mergeObjects: "$x" } on { x: [{ a: 1 }, null, { b: 2 }] } => { a: 1, b: 2 }
//! { $mergeObjects: [{ a: 1 }, 1] } => error 40400: $mergeObjects requires object inputs, but input 1 is of type int
//! ```

use arbor_bson::{Doc, DocBuf, ValueRef};
use hashbrown::HashMap;

use crate::expression::Evaluated;
use crate::stop::{check_growth, tick};
use crate::{Error, Result, text};

pub(super) fn eval(documents: Vec<Evaluated>) -> Result<Evaluated> {
    let mut docs = Vec::new();
    for document in documents.iter().filter(|document| !document.is_nullish()) {
        match document.or_null() {
            ValueRef::Document(doc) => docs.push(doc),
            ValueRef::Array(list) if documents.len() == 1 => {
                for item in list.iter() {
                    match item {
                        ValueRef::Document(doc) => docs.push(doc),
                        ValueRef::Null | ValueRef::Undefined => {}
                        other => return Err(not_a_document(other)),
                    }
                }
            }
            other => return Err(not_a_document(other)),
        }
    }
    if let [only] = docs.as_slice() {
        return Ok(only.to_buf().into());
    }
    merged(&docs).map(Into::into)
}

/// Each field is where the first document has it, with the value of the last one.
fn merged(docs: &[Doc]) -> Result<DocBuf> {
    let mut values: HashMap<&str, ValueRef> = HashMap::new();
    for (name, value) in docs.iter().flat_map(|doc| doc.iter()) {
        tick()?;
        values.insert(name, value);
    }
    let mut merged = DocBuf::new();
    for (name, _) in docs.iter().flat_map(|doc| doc.iter()) {
        tick()?;
        if let Some(value) = values.remove(name) {
            merged.append(name, value);
            check_growth("$mergeObjects", merged.as_bytes().len())?;
        }
    }
    Ok(merged)
}

pub fn not_a_document(value: ValueRef) -> Error {
    let (shown, found) = (text::shell(value), text::type_name(Some(value)));
    Error::location(40400, format!("$mergeObjects requires object inputs, but input {shown} is of type {found}"))
}
