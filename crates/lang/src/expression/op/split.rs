//! `$split`: the parts of a text between separators.
//!
//! ```text
//! { $split: ["a-b-c", "-"] } => ["a", "b", "c"]
//! { $split: ["-a", "-"] } => ["", "a"]
//! { $split: ["$x", "-"] } => null
//! { $split: [1, "-"] } => error 40085: $split requires an expression that evaluates to a string as a first argument, found: int
//! { $split: ["a", 1] } => error 40086: $split requires an expression that evaluates to a string as a second argument, found: int
//! { $split: ["a", ""] } => error 40087: $split requires a non-empty separator
//! ```

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::Evaluated;
use crate::stop::{check_growth, tick_for};
use crate::{Error, Result};

pub(super) fn eval<'a>(text: Evaluated<'a>, separator: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Evaluated::null());
    }
    let not_text = |which: &str, code, found: &Evaluated| {
        let found = found.type_name();
        let message =
            format!("$split requires an expression that evaluates to a string as a {which} argument, found: {found}");
        Error::location(code, message)
    };
    let Some(ValueRef::String(input)) = text.get() else { return Err(not_text("first", 40085, &text)) };
    let Some(ValueRef::String(by)) = separator.get() else { return Err(not_text("second", 40086, &separator)) };
    if by.is_empty() {
        return Err(Error::location(40087, "$split requires a non-empty separator"));
    }
    let mut parts = ArrayBuf::new();
    for part in input.split(by) {
        tick_for(part.len())?;
        parts.push(part);
        check_growth("$split", parts.as_array().as_bytes().len())?;
    }
    Ok(parts.into())
}
