//! `$mergeObjects`: documents laid over each other; later fields win, null and missing are skipped.
//!
//! ```text
//! { $mergeObjects: [{ a: 1, b: 1 }, { b: 2, c: 3 }] } => { a: 1, b: 2, c: 3 }
//! { $mergeObjects: ["$x", { a: 1 }] } => { a: 1 }
//! { $mergeObjects: "$x" } on { x: { a: 1 } } => { a: 1 }
//! { $mergeObjects: [{ a: 1 }, 1] } => error 40400: $mergeObjects requires object inputs, but input 1 is of type int
//! ```

use arbor_bson::{Doc, DocBuf, ValueRef};

use crate::expression::Evaluated;
use crate::stop::check_growth;
use crate::{Error, Result, text};

pub fn eval(documents: Vec<Evaluated>) -> Result<Evaluated> {
    let mut merged = DocBuf::new();
    for document in &documents {
        if document.is_nullish() {
            continue;
        }
        match document.or_null() {
            ValueRef::Document(doc) => {
                merged = merge(merged, doc);
                check_growth("$mergeObjects", merged.as_bytes().len())?;
            }
            other => return Err(not_a_document(other)),
        }
    }
    Ok(merged.into())
}

/// The fields of the second document over those of the first.
pub fn merge(below: DocBuf, above: Doc) -> DocBuf {
    if below.as_doc().is_empty() {
        return above.to_buf();
    }
    let mut merged = DocBuf::new();
    for (name, value) in below.as_doc() {
        merged.append(name, above.get(name).unwrap_or(value));
    }
    for (name, value) in above {
        if below.get(name).is_none() {
            merged.append(name, value);
        }
    }
    merged
}

pub fn not_a_document(value: ValueRef) -> Error {
    let (shown, found) = (text::shell(value), text::type_name(Some(value)));
    Error::location(40400, format!("$mergeObjects requires object inputs, but input {shown} is of type {found}"))
}
