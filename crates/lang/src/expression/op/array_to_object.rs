//! `$arrayToObject`: a document from pairs `[name, value]` or documents `{ k, v }`; a later name wins.
//!
//! ```text
//! { $arrayToObject: [[["a", 1], ["b", 2]]] } => { a: 1, b: 2 }
//! { $arrayToObject: [[{ k: "a", v: 1 }, { k: "a", v: 3 }]] } => { a: 3 }
//! { $arrayToObject: "$a" } => null
//! { $arrayToObject: 1 } => error 40386: $arrayToObject requires an array input, found: int
//! { $arrayToObject: [[1]] } => error 40398: Unrecognised input type format for $arrayToObject: int
//! { $arrayToObject: [[["a"]]] } => error 40397: $arrayToObject requires an array of size 2 arrays,found array of size: 1
//! { $arrayToObject: [[[1, 2]]] } => error 40395: $arrayToObject requires an array of key-value pairs, where the key must be of type string. Found key type: int
//! { $arrayToObject: [[{ k: 1, v: 2 }]] } => error 40394: $arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type string. Found type: int
//! { $arrayToObject: [[{ k: "a" }]] } => error 40392: $arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:1
//! ```

use arbor_bson::{Array, Doc, DocBuf, ValueRef};
use hashbrown::HashMap;

use crate::expression::Evaluated;
use crate::stop::tick;
use crate::{Error, Result, text};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    let pairs = match value.get() {
        _ if value.is_nullish() => return Ok(Evaluated::null()),
        Some(ValueRef::Array(pairs)) => pairs,
        _ => {
            let message = format!("$arrayToObject requires an array input, found: {}", value.type_name());
            return Err(Error::location(40386, message));
        }
    };
    let mut fields: Vec<(&str, ValueRef)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let form = pairs.get(0);
    for item in pairs.iter() {
        same_form(form, item)?;
        let (name, value) = match item {
            ValueRef::Array(pair) => of_pair(pair)?,
            ValueRef::Document(doc) => of_document(doc)?,
            other => {
                let found = text::type_name(Some(other));
                let message = format!("Unrecognised input type format for $arrayToObject: {found}");
                return Err(Error::location(40398, message));
            }
        };
        if name.contains('\0') {
            let code = if matches!(item, ValueRef::Array(_)) { 4940400 } else { 4940401 };
            return Err(Error::location(code, "Key field cannot contain an embedded null byte"));
        }
        tick()?;
        let place = *places.entry(name).or_insert(fields.len());
        match fields.get_mut(place) {
            Some(field) => field.1 = value,
            None => fields.push((name, value)),
        }
    }
    Ok(fields.into_iter().collect::<DocBuf>().into())
}

/// Checks that all elements have the form of the first one: all pairs or all documents.
fn same_form(first: Option<ValueRef>, item: ValueRef) -> Result<()> {
    let (code, detected) = match (first, item) {
        (Some(ValueRef::Array(_)), ValueRef::Array(_)) | (Some(ValueRef::Document(_)), ValueRef::Document(_)) => {
            return Ok(());
        }
        (Some(ValueRef::Array(_)), _) => (40396, "Array"),
        (Some(ValueRef::Document(_)), _) => (40391, "Object"),
        _ => return Ok(()),
    };
    let message = format!(
        "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. {detected} was \
         detected, now found: {}",
        text::type_name(Some(item))
    );
    Err(Error::location(code, message))
}

fn of_pair(pair: Array<'_>) -> Result<(&str, ValueRef<'_>)> {
    let size = pair.len();
    match (pair.get(0), pair.get(1)) {
        (Some(name), Some(value)) if size == 2 => Ok((key(name, 40395)?, value)),
        _ => {
            let message = format!("$arrayToObject requires an array of size 2 arrays,found array of size: {size}");
            Err(Error::location(40397, message))
        }
    }
}

fn of_document(doc: Doc<'_>) -> Result<(&str, ValueRef<'_>)> {
    let count = doc.iter().count();
    if count != 2 {
        let message =
            format!("$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{count}");
        return Err(Error::location(40392, message));
    }
    match (doc.get("k"), doc.get("v")) {
        (Some(name), Some(value)) => Ok((key(name, 40394)?, value)),
        _ => {
            let shown = text::shell(ValueRef::Document(doc));
            let message = format!(
                "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys from: {shown}"
            );
            Err(Error::location(40393, message))
        }
    }
}

fn key(value: ValueRef<'_>, code: i32) -> Result<&str> {
    match value {
        ValueRef::String(name) => Ok(name),
        other => {
            let found = text::type_name(Some(other));
            let message = match code {
                40394 => format!(
                    "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type \
                     string. Found type: {found}"
                ),
                _ => format!(
                    "$arrayToObject requires an array of key-value pairs, where the key must be of type string. Found \
                     key type: {found}"
                ),
            };
            Err(Error::location(code, message))
        }
    }
}
