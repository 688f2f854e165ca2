//! `$reverseArray`: the elements from the last to the first.
//!
//! ```text
//! { $reverseArray: [[1, 2, 3]] } => [3, 2, 1]
//! { $reverseArray: "$a" } => null
//! { $reverseArray: 1 } => error 34435: The argument to $reverseArray must be an array, but was of type: int
//! ```

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(array: Evaluated) -> Result<Evaluated> {
    match array.get() {
        _ if array.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::Array(elements)) => {
            let elements: Vec<ValueRef> = elements.iter().collect();
            Ok(elements.into_iter().rev().collect::<ArrayBuf>().into())
        }
        _ => {
            let found = array.type_name();
            let message = format!("The argument to $reverseArray must be an array, but was of type: {found}");
            Err(Error::location(34435, message))
        }
    }
}
