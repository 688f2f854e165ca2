//! `$toObjectId`: an ObjectId from its 24 hexadecimal digits.
//!
//! ```text
//! { $toObjectId: "0102030405060708090a0b0c" } => ObjectId("0102030405060708090a0b0c")
//! { $toObjectId: "$a" } => null
//! { $toObjectId: "12" } => error 241: Failed to parse objectId '12' in $convert with no onError value: Invalid string length for parsing to OID, expected 24 but found 2
//! { $toObjectId: 1 } => error 241: Unsupported conversion from int to objectId in $convert with no onError value
//! ```

use arbor_bson::Type;

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::convert_or_null;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    convert_or_null(value, Type::ObjectId)
}
