//! `$type`: the name of the type of a value.
//!
//! ```text
//! { $type: 1 } => "int"
//! { $type: "$a" } => "missing"
//! { $type: [[1]] } => "array"
//! { $type: 1.5 } => "double"
//! { $type: { $literal: null } } => "null"
//! ```

use crate::Result;
use crate::expression::Evaluated;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    Ok(value.type_name().into())
}
