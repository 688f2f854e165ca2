//! `$first`: the first element of an array.
//!
//! ```text
//! { $first: "$a" } on { a: [1, 2] } => 1
//! { $first: [[]] } => missing
//! { $first: "$a" } => null
//! { $first: 1 } => error 28689: $first's argument must be an array, but is int
//! ```

use arbor_bson::ValueRef;

use super::array_elem_at::pick;
use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(array: Evaluated) -> Result<Evaluated> {
    match array.get() {
        _ if array.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::Array(_)) => Ok(pick(array, |elements| elements.get(0))),
        _ => Err(Error::location(28689, format!("$first's argument must be an array, but is {}", array.type_name()))),
    }
}
