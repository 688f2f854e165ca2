//! `$anyElementTrue`: whether an element is not false, zero or null.
//!
//! ```text
//! { $anyElementTrue: [[0, 1]] } => true
//! { $anyElementTrue: [[0, null]] } => false
//! { $anyElementTrue: [1] } => error 17041: $anyElementTrue's argument must be an array, but is int
//! ```

use arbor_bson::ValueRef;

use crate::expression::{Evaluated, is_true};
use crate::{Error, Result};

pub(super) fn eval(array: Evaluated) -> Result<Evaluated> {
    match array.get() {
        Some(ValueRef::Array(elements)) => Ok(elements.iter().any(is_true).into()),
        _ => {
            let message = format!("$anyElementTrue's argument must be an array, but is {}", array.type_name());
            Err(Error::location(17041, message))
        }
    }
}
