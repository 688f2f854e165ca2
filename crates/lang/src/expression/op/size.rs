//! `$size`: the number of elements of an array.
//!
//! ```text
//! { $size: "$a" } on { a: [1, 2] } => 2
//! { $size: [[]] } => 0
//! { $size: "$a" } => error 17124: The argument to $size must be an array, but was of type: missing
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(array: Evaluated) -> Result<Evaluated> {
    match array.get() {
        Some(ValueRef::Array(elements)) => Ok((elements.len() as i32).into()),
        _ => {
            let found = array.type_name();
            Err(Error::location(17124, format!("The argument to $size must be an array, but was of type: {found}")))
        }
    }
}
