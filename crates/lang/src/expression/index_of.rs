//! Shared argument handling of `$indexOfArray`, `$indexOfBytes` and `$indexOfCP`.

use std::ops::Range;

use arbor_bson::ValueRef;

use super::Evaluated;
use crate::{Error, Result, number, text};

/// Returns the position of one text in another, or -1: `find` gets the text, the text to find and the range to search,
/// which may begin past the end of the text or end before it begins.
///
/// Errors: `codes` for a first and for a second argument that is no text.
pub(super) fn in_text<'a>(
    operator: &str,
    codes: [i32; 2],
    arguments: Vec<Evaluated<'a>>,
    find: impl FnOnce(&str, &str, Range<usize>) -> Option<usize>,
) -> Result<Evaluated<'a>> {
    let mut arguments = arguments.into_iter();
    let text = arguments.next().unwrap_or(Evaluated::Missing);
    let target = arguments.next().unwrap_or(Evaluated::Missing);
    if text.is_nullish() {
        return Ok(Evaluated::null());
    }
    let not_text = |which: &str, code, found: &Evaluated| {
        let found = found.type_name();
        Error::location(code, format!("{operator} requires a string as the {which} argument, found: {found}"))
    };
    let [first, second] = codes;
    let Some(ValueRef::String(text)) = text.get() else { return Err(not_text("first", first, &text)) };
    let Some(ValueRef::String(target)) = target.get() else { return Err(not_text("second", second, &target)) };
    let start = position(operator, "starting", arguments.next())?.unwrap_or(0);
    let end = position(operator, "ending", arguments.next())?.unwrap_or(usize::MAX);
    Ok(find(text, target, start..end).map_or(-1, |at| at as i32).into())
}

/// A start or an end of a search.
pub(super) fn position(operator: &str, which: &str, value: Option<Evaluated>) -> Result<Option<usize>> {
    let Some(value) = value else { return Ok(None) };
    let value = value.or_null();
    let whole = number::exact_i32(value).ok_or_else(|| {
        let (found, shown) = (text::type_name(Some(value)), text::shell(value));
        let message = format!(
            "{operator} requires an integral {which} index, found a value of type: {found}, with value: \"{shown}\""
        );
        Error::location(40096, message)
    })?;
    let negative =
        || Error::location(40097, format!("{operator} requires a nonnegative {which} index, found: {whole}"));
    usize::try_from(whole).map(Some).map_err(|_| negative())
}
