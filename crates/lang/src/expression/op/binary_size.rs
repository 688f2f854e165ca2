//! `$binarySize`: the bytes of a text or of binary data.
//!
//! ```text
//! { $binarySize: "é" } => 2
//! { $binarySize: Binary(0, "0102") } => 2
//! { $binarySize: "$a" } => null
//! { $binarySize: 1 } => error 51276: $binarySize requires a string or BinData argument, found: int
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    match value.get() {
        _ if value.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::String(text)) => Ok((text.len() as i32).into()),
        Some(ValueRef::Binary { bytes, .. }) => Ok((bytes.len() as i32).into()),
        _ => {
            let message = format!("$binarySize requires a string or BinData argument, found: {}", value.type_name());
            Err(Error::location(51276, message))
        }
    }
}
