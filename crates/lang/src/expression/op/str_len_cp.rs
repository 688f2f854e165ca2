//! `$strLenCP`: the length of a text in code points.
//!
//! ```text
//! { $strLenCP: "é" } => 1
//! { $strLenCP: "$a" } => error 34471: $strLenCP requires a string argument, found: missing
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(text: Evaluated) -> Result<Evaluated> {
    match text.get() {
        Some(ValueRef::String(text)) => Ok((text.chars().count() as i32).into()),
        _ => {
            let message = format!("$strLenCP requires a string argument, found: {}", text.type_name());
            Err(Error::location(34471, message))
        }
    }
}
