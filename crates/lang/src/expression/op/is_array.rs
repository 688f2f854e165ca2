//! `$isArray`: whether a value is an array.
//!
//! ```text
//! { $isArray: "$a" } on { a: [] } => true
//! { $isArray: "$a" } => false
//! { $isArray: ["x"] } => false
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Evaluated;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    Ok(matches!(value.get(), Some(ValueRef::Array(_))).into())
}
