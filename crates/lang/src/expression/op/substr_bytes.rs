//! `$substrBytes` (and `$substr`): a part of a text by UTF-8 bytes; a negative length takes all the rest.
//!
//! ```text
//! { $substrBytes: ["hello", 1, 3] } => "ell"
//! { $substrBytes: ["hello", 3, -1] } => "lo"
//! { $substr: ["hello", 9, 1] } => ""
//! { $substr: [12345, 1, 2] } => "23"
//! { $substr: ["$a", 0, 1] } => ""
//! { $substrBytes: ["é", 1, 1] } => error 28656: $substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.
//! { $substrBytes: ["é", 0, 1] } => error 28657: $substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.
//! { $substrBytes: ["a", "x", 1] } => error 16034: $substrBytes:  starting index must be a numeric type (is BSON type string)
//! { $substrBytes: ["a", -1, 1] } => error 50752: $substrBytes:  starting index must be non-negative (got: -1)
//! ```

use crate::expression::Evaluated;
use crate::expression::convert::coerce_to_string;
use crate::{Error, Result, number};

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next().unwrap_or(Evaluated::Missing);
    let (text, start, length) = (next(), next(), next());
    let text = coerce_to_string(&text)?;
    let number = |what: &str, code, value: &Evaluated| {
        number::coerce_to_i64(value.or_null())?.ok_or_else(|| {
            let found = value.type_name();
            Error::location(code, format!("$substrBytes:  {what} must be a numeric type (is BSON type {found})"))
        })
    };
    let (start, length) = (number("starting index", 16034, &start)?, number("length", 16035, &length)?);
    let negative = || format!("$substrBytes:  starting index must be non-negative (got: {start})");
    let start = usize::try_from(start).map_err(|_| Error::location(50752, negative()))?;
    let end = usize::try_from(length).map_or(usize::MAX, |length| start.saturating_add(length)).min(text.len());
    if start >= text.len() {
        return Ok("".into());
    }
    if !text.is_char_boundary(start) {
        let message = "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.";
        return Err(Error::location(28656, message));
    }
    match text.get(start..end) {
        Some(part) => Ok(part.into()),
        None => {
            let message = "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.";
            Err(Error::location(28657, message))
        }
    }
}
