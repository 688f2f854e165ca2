//! `$toString`: a value as text.
//!
//! ```text
//! { $toString: 12 } => "12"
//! { $toString: 2.5 } => "2.5"
//! { $toString: 2.0 } => "2"
//! { $toString: 1e30 } => "1e+30"
//! { $toString: Decimal("1.50") } => "1.50"
//! { $toString: true } => "true"
//! { $toString: ObjectId("0102030405060708090a0b0c") } => "0102030405060708090a0b0c"
//! { $toString: Date(1522169931538) } => "2018-03-27T16:58:51.538Z"
//! { $toString: "$a" } => null
//! { $toString: [[1]] } => error 241: Unsupported conversion from array to string in $convert with no onError value
//! ```

use arbor_bson::Type;

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::convert_or_null;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    convert_or_null(value, Type::String)
}
