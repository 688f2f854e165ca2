//! `$indexOfBytes`: the first place of a text in another, in UTF-8 bytes; -1 when it is not there.
//!
//! ```text
//! { $indexOfBytes: ["cafeteria", "e"] } => 3
//! { $indexOfBytes: ["éa", "a"] } => 2
//! { $indexOfBytes: ["abab", "b", 2] } => 3
//! { $indexOfBytes: ["abab", "b", 2, 3] } => -1
//! { $indexOfBytes: ["$a", "b"] } => null
//! { $indexOfBytes: [1, "b"] } => error 40091: $indexOfBytes requires a string as the first argument, found: int
//! { $indexOfBytes: ["b", 1] } => error 40092: $indexOfBytes requires a string as the second argument, found: int
//! ```

use arbor_bson::ValueRef;

use super::index_of_array::position;
use crate::expression::Evaluated;
use crate::{Error, Result};

pub fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut arguments = arguments.into_iter();
    let text = arguments.next().unwrap_or(Evaluated::Missing);
    let wanted = arguments.next().unwrap_or(Evaluated::Missing);
    if text.is_nullish() {
        return Ok(Evaluated::null());
    }
    let not_text = |which: &str, code, found: &Evaluated| {
        let found = found.type_name();
        Error::location(code, format!("$indexOfBytes requires a string as the {which} argument, found: {found}"))
    };
    let Some(ValueRef::String(text)) = text.get() else { return Err(not_text("first", 40091, &text)) };
    let Some(ValueRef::String(wanted)) = wanted.get() else { return Err(not_text("second", 40092, &wanted)) };
    let start = position("$indexOfBytes", "starting", arguments.next())?.unwrap_or(0);
    let end = position("$indexOfBytes", "ending", arguments.next())?.unwrap_or(usize::MAX).min(text.len());
    let found = text.as_bytes().get(start..end).and_then(|part| find(part, wanted.as_bytes()));
    Ok(found.map_or(-1, |at| (start + at) as i32).into())
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    text.windows(wanted.len()).position(|window| window == wanted)
}
