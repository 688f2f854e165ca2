//! `$toLong`: a 64-bit integer; fractions are cut off, dates give milliseconds.
//!
//! ```text
//! { $toLong: 5.9 } => Long(5)
//! { $toLong: "5" } => Long(5)
//! { $toLong: Date(7) } => Long(7)
//! { $toLong: "$a" } => null
//! { $toLong: "x" } => error 241: Failed to parse number 'x' in $convert with no onError value: Did not consume whole string.
//! ```

use arbor_bson::Type;

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::convert_or_null;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    convert_or_null(value, Type::Int64)
}
