//! `$toHashedIndexKey`: what a hashed index holds for a value.
//!
//! ```text
//! { $toHashedIndexKey: "$a" } => Long(2338878944348059895)
//! { $toHashedIndexKey: null } => Long(2338878944348059895)
//! { $toHashedIndexKey: 1 } => Long(5902408780260971510)
//! { $toHashedIndexKey: 1.9 } => Long(5902408780260971510)
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Result, hash_of};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    Ok(hash_of(value.get().unwrap_or(ValueRef::Null)).into())
}
