//! `$toLower`: the text in lower case (ASCII letters). Numbers and dates become text first, null and nothing "".
//!
//! ```text
//! { $toLower: "ABC" } => "abc"
//! { $toLower: "ÀB" } => "Àb"
//! { $toLower: "$a" } => ""
//! { $toLower: 12 } => "12"
//! { $toLower: [[1]] } => error 16007: can't convert from BSON type array to String
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::coerce_to_string;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    Ok(coerce_to_string(&value)?.to_ascii_lowercase().into())
}
