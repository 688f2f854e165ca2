//! Field paths in expressions.
//!
//! A path over an array gives the array of what it finds in the elements that are documents; other elements, arrays among
//! them, give nothing. Positions (`$a.0`) do not reach into arrays here.

use arbor_bson::{ArrayBuf, DEPTH_MAX, Value, ValueRef};

use super::Evaluated;
use crate::path::Component;

/// The value at a path inside `value`.
pub(super) fn resolve<'a>(value: ValueRef<'a>, path: &[Component]) -> Evaluated<'a> {
    within(value, path, DEPTH_MAX)
}

/// `levels`: how much deeper it looks; arrays in arrays take no part of the path.
fn within<'a>(value: ValueRef<'a>, path: &[Component], levels: usize) -> Evaluated<'a> {
    let Some((first, rest)) = path.split_first() else { return Evaluated::Borrowed(value) };
    let Some(levels) = levels.checked_sub(1) else { return Evaluated::Missing };
    match value {
        ValueRef::Document(doc) => match doc.get(&first.name) {
            Some(inner) => within(inner, rest, levels),
            None => Evaluated::Missing,
        },
        ValueRef::Array(array) => {
            let mut found = ArrayBuf::new();
            for element in array.iter().filter(|element| matches!(element, ValueRef::Document(_))) {
                if let Some(value) = within(element, path, levels).get() {
                    found.push(value);
                }
            }
            Evaluated::Owned(Value::Array(found))
        }
        _ => Evaluated::Missing,
    }
}
