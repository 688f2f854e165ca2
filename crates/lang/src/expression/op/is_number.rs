//! `$isNumber`: whether a value is a number of any type.
//!
//! ```text
//! { $isNumber: 1.5 } => true
//! { $isNumber: "1" } => false
//! { $isNumber: "$a" } => false
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::number;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    Ok(value.get().is_some_and(number::is_number).into())
}
