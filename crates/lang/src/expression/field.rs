//! Field paths in expressions.
//!
//! A path over an array gives the array of what it finds in the elements that are documents (or arrays of such); other
//! elements give nothing. Positions (`$a.0`) do not reach into arrays here.

use arbor_bson::{ArrayBuf, Value, ValueRef};

use super::Evaluated;
use crate::path::Component;

pub fn resolve<'a>(value: ValueRef<'a>, path: &[Component]) -> Evaluated<'a> {
    let Some((first, rest)) = path.split_first() else { return Evaluated::Borrowed(value) };
    match value {
        ValueRef::Document(doc) => match doc.get(&first.name) {
            Some(inner) => resolve(inner, rest),
            None => Evaluated::Missing,
        },
        ValueRef::Array(array) => {
            let mut found = ArrayBuf::new();
            for element in array.iter() {
                if let Some(value) = resolve(element, path).get() {
                    found.push(value);
                }
            }
            Evaluated::Owned(Value::Array(found))
        }
        _ => Evaluated::Missing,
    }
}
