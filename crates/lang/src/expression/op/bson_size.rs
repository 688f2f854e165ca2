//! `$bsonSize`: the bytes a document takes as BSON.
//!
//! ```text
//! { $bsonSize: "$$ROOT" } on { a: 1 } => 12
//! { $bsonSize: "$a" } => null
//! { $bsonSize: 1 } => error 31393: $bsonSize requires a document input, found: int
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    match value.get() {
        _ if value.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::Document(doc)) => Ok((doc.as_bytes().len() as i32).into()),
        _ => {
            let message = format!("$bsonSize requires a document input, found: {}", value.type_name());
            Err(Error::location(31393, message))
        }
    }
}
