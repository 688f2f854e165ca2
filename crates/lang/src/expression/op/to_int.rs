//! `$toInt`: a 32-bit integer; fractions are cut off.
//!
//! ```text
//! { $toInt: 5.9 } => 5
//! { $toInt: "-5" } => -5
//! { $toInt: true } => 1
//! { $toInt: "$a" } => null
//! { $toInt: 1e10 } => error 241: Conversion would overflow target type in $convert with no onError value: 10000000000.0
//! { $toInt: NaN } => error 241: Attempt to convert NaN value to integer type in $convert with no onError value
//! { $toInt: "5.5" } => error 241: Failed to parse number '5.5' in $convert with no onError value: Did not consume whole string.
//! ```

use arbor_bson::Type;

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::convert_or_null;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    convert_or_null(value, Type::Int32)
}
