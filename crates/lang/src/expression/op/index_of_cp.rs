//! `$indexOfCP`: the first place of a text in another, in code points; -1 when it is not there.
//!
//! ```text
//! { $indexOfCP: ["éa", "a"] } => 1
//! { $indexOfCP: ["abab", "b", 2] } => 3
//! { $indexOfCP: ["abab", "b", 9] } => -1
//! { $indexOfCP: ["$a", "b"] } => null
//! { $indexOfCP: [1, "b"] } => error 40093: $indexOfCP requires a string as the first argument, found: int
//! { $indexOfCP: ["b", 1] } => error 40094: $indexOfCP requires a string as the second argument, found: int
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
        Error::location(code, format!("$indexOfCP requires a string as the {which} argument, found: {found}"))
    };
    let Some(ValueRef::String(text)) = text.get() else { return Err(not_text("first", 40093, &text)) };
    let Some(ValueRef::String(wanted)) = wanted.get() else { return Err(not_text("second", 40094, &wanted)) };
    let start = position("$indexOfCP", "starting", arguments.next())?.unwrap_or(0);
    let end = position("$indexOfCP", "ending", arguments.next())?.unwrap_or(usize::MAX);
    let byte_of = |point: usize| text.char_indices().nth(point).map_or(text.len(), |(byte, _)| byte);
    let (from, to) = (byte_of(start), byte_of(end));
    let in_range = start <= text.chars().count();
    let found = text.get(from..to).filter(|_| in_range).and_then(|part| Some((part, part.find(wanted)?)));
    let points = found.and_then(|(part, at)| Some(start + part.get(..at)?.chars().count()));
    Ok(points.map_or(-1, |at| at as i32).into())
}
