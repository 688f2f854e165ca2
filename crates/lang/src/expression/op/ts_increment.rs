//! `$tsIncrement`: the ordinal of a timestamp within its second.
//!
//! ```text
//! { $tsIncrement: Timestamp(5, 2) } => Long(2)
//! { $tsIncrement: "$a" } => null
//! { $tsIncrement: 1 } => error 5687302:  Argument to $tsIncrement must be a timestamp, but is int
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    match value.get() {
        _ if value.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::Timestamp(timestamp)) => Ok(i64::from(timestamp.increment).into()),
        _ => {
            let message = format!(" Argument to $tsIncrement must be a timestamp, but is {}", value.type_name());
            Err(Error::location(5687302, message))
        }
    }
}
