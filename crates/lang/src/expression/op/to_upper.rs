//! `$toUpper`: the text in upper case (ASCII letters). Numbers and dates become text first, null and nothing "".
//!
//! ```text
//! { $toUpper: "abc" } => "ABC"
//! { $toUpper: null } => ""
//! { $toUpper: Date(0) } => "1970-01-01T00:00:00.000Z"
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::coerce_to_string;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    Ok(coerce_to_string(&value)?.to_ascii_uppercase().into())
}
