//! `$last`: the last element of an array.
//!
//! ```text
//! { $last: "$a" } on { a: [1, 2] } => 2
//! { $last: [[]] } => missing
//! { $last: "$a" } => null
//! { $last: 1 } => error 28689: $last's argument must be an array, but is int
//! ```

use arbor_bson::ValueRef;

use super::array_elem_at::pick;
use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(array: Evaluated) -> Result<Evaluated> {
    match array.get() {
        _ if array.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::Array(_)) => Ok(pick(array, |elements| elements.iter().last())),
        _ => Err(Error::location(28689, format!("$last's argument must be an array, but is {}", array.type_name()))),
    }
}
