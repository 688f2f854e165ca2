//! `$toUUID`: a UUID (binary data of subtype 4) from its text.
//!
//! ```text
//! { $toUUID: "abcdef01-0203-0405-0607-08090a0b0c0d" } => Binary(4, "abcdef0102030405060708090a0b0c0d")
//! { $toUUID: "$a" } => null
//! { $toUUID: 1 } => error 241: Unsupported conversion from int to binData in $convert with no onError value
//! ```

use arbor_bson::{Type, ValueRef};

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::binary_format::{Format, UUID};
use crate::expression::convert::{Target, convert, unsupported};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    if value.is_nullish() {
        return Ok(Evaluated::null());
    }
    let target = Target { subtype: UUID, format: Some(Format::Uuid), ..Target::new(Type::Binary) };
    match value.or_null() {
        text @ (ValueRef::String(_) | ValueRef::Binary { .. }) => Ok(Evaluated::Owned(convert(text, target)?)),
        other => Err(unsupported(other, Type::Binary)),
    }
}
