//! `$bitNot`: the bits that a whole number has not.
//!
//! ```text
//! { $bitNot: 5 } => -6
//! { $bitNot: Long(5) } => Long(-6)
//! { $bitNot: "$a" } => null
//! { $bitNot: 1.5 } => error 14: $bitNot only supports int and long, not: double.
//! { $bitNot: "x" } => error 28765: $bitNot only supports numeric types, not string
//! ```

use arbor_bson::{Number, ValueRef};

use crate::expression::Evaluated;
use crate::text::type_name;
use crate::{Error, Result};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    match value.get() {
        _ if value.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::Int32(v)) => Ok((!v).into()),
        Some(ValueRef::Int64(v)) => Ok((!v).into()),
        Some(value) if Number::of(value).is_none() => {
            let message = format!("$bitNot only supports numeric types, not {}", type_name(Some(value)));
            Err(Error::location(28765, message))
        }
        _ => {
            let message = format!("$bitNot only supports int and long, not: {}.", value.type_name());
            Err(Error::type_mismatch(message))
        }
    }
}
