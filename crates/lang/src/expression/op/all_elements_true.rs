//! `$allElementsTrue`: whether no element is false, zero or null.
//!
//! ```text
//! { $allElementsTrue: [[1, "x"]] } => true
//! { $allElementsTrue: [[1, 0]] } => false
//! { $allElementsTrue: [[]] } => true
//! { $allElementsTrue: [1] } => error 17040: $allElementsTrue's argument must be an array, but is int
//! ```

use arbor_bson::ValueRef;

use crate::expression::{Evaluated, is_true};
use crate::{Error, Result};

pub(super) fn eval(array: Evaluated) -> Result<Evaluated> {
    match array.get() {
        Some(ValueRef::Array(elements)) => Ok(elements.iter().all(is_true).into()),
        _ => {
            let message = format!("$allElementsTrue's argument must be an array, but is {}", array.type_name());
            Err(Error::location(17040, message))
        }
    }
}
