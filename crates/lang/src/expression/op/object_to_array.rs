//! `$objectToArray`: a document as an array of `{ k: name, v: value }`.
//!
//! ```text
//! { $objectToArray: "$a" } on { a: { x: 1, y: [2] } } => [{ k: "x", v: 1 }, { k: "y", v: [2] }]
//! { $objectToArray: "$a" } => null
//! { $objectToArray: 1 } => error 40390: $objectToArray requires a document input, found: int
//! ```

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    match value.get() {
        _ if value.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::Document(doc)) => {
            let mut pairs = ArrayBuf::new();
            for (name, value) in doc {
                pairs.push(&DocBuf::new().with("k", name).with("v", value));
            }
            Ok(pairs.into())
        }
        _ => {
            let message = format!("$objectToArray requires a document input, found: {}", value.type_name());
            Err(Error::location(40390, message))
        }
    }
}
