//! `$floor`: the greatest whole number that is not greater.
//!
//! ```text
//! { $floor: 1.8 } => 1.0
//! { $floor: -1.2 } => -2.0
//! { $floor: Decimal("-1.2") } => Decimal("-2")
//! { $floor: "$a" } => null
//! { $floor: [[]] } => error 28765: $floor only supports numeric types, not array
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{Rounding, numeric, round};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$floor", value, |number| Ok(round(number, 0, Rounding::Down)))
}
