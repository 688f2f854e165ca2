//! `$substrCP`: a part of a text by code points.
//!
//! ```text
//! { $substrCP: ["héllo", 1, 3] } => "éll"
//! { $substrCP: ["ab", 5, 1] } => ""
//! { $substrCP: ["$a", 0, 1] } => ""
//! { $substrCP: ["ab", "x", 1] } => error 34450: $substrCP: starting index must be a numeric type (is BSON type string)
//! { $substrCP: ["ab", 0.5, 1] } => error 34451: $substrCP: starting index cannot be represented as a 32-bit integral value: 0.5
//! { $substrCP: ["ab", -1, 1] } => error 34455: $substrCP: the starting index must be nonnegative integer.
//! { $substrCP: ["ab", 0, -1] } => error 34454: $substrCP: length must be a nonnegative integer.
//! ```

use crate::expression::Evaluated;
use crate::expression::convert::coerce_to_string;
use crate::{Error, Result, number, text};

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next().unwrap_or(Evaluated::Missing);
    let (text, start, length) = (next(), next(), next());
    let text = coerce_to_string(&text)?;
    let start = whole("starting index", 34450, &start)?;
    let length = whole("length", 34452, &length)?;
    let length = usize::try_from(length)
        .map_err(|_| Error::location(34454, "$substrCP: length must be a nonnegative integer."))?;
    let start = usize::try_from(start)
        .map_err(|_| Error::location(34455, "$substrCP: the starting index must be nonnegative integer."))?;
    Ok(text.chars().skip(start).take(length).collect::<String>().into())
}

fn whole(what: &str, code: i32, value: &Evaluated) -> Result<i32> {
    if !value.get().is_some_and(number::is_number) {
        let found = value.type_name();
        let message = format!("$substrCP: {what} must be a numeric type (is BSON type {found})");
        return Err(Error::location(code, message));
    }
    number::exact_i32(value.or_null()).ok_or_else(|| {
        let shown = text::shell(value.or_null());
        let message = format!("$substrCP: {what} cannot be represented as a 32-bit integral value: {shown}");
        Error::location(code + 1, message)
    })
}
