//! `$strLenBytes`: the length of a text in UTF-8 bytes.
//!
//! ```text
//! { $strLenBytes: "é" } => 2
//! { $strLenBytes: "" } => 0
//! { $strLenBytes: 1 } => error 34473: $strLenBytes requires a string argument, found: int
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(text: Evaluated) -> Result<Evaluated> {
    match text.get() {
        Some(ValueRef::String(text)) => Ok((text.len() as i32).into()),
        _ => {
            let message = format!("$strLenBytes requires a string argument, found: {}", text.type_name());
            Err(Error::location(34473, message))
        }
    }
}
