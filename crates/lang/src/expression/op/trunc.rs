//! `$trunc`: cuts off digits.
//!
//! ```text
//! { $trunc: -1.8 } => -1.0
//! { $trunc: [2.678, 2] } => 2.67
//! { $trunc: [1299, -2] } => 1200
//! { $trunc: "$a" } => null
//! { $trunc: "x" } => error 51081: $trunc only supports numeric types, not string
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{Rounding, round_to_place};

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    round_to_place("$trunc", arguments, Rounding::TowardsZero)
}
