//! `$tsSecond`: the seconds of a timestamp.
//!
//! ```text
//! { $tsSecond: Timestamp(5, 2) } => Long(5)
//! { $tsSecond: "$a" } => null
//! { $tsSecond: 1 } => error 5687301:  Argument to $tsSecond must be a timestamp, but is int
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    match value.get() {
        _ if value.is_nullish() => Ok(Evaluated::null()),
        Some(ValueRef::Timestamp(timestamp)) => Ok(i64::from(timestamp.seconds).into()),
        _ => {
            let message = format!(" Argument to $tsSecond must be a timestamp, but is {}", value.type_name());
            Err(Error::location(5687301, message))
        }
    }
}
