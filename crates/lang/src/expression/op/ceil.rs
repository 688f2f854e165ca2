//! `$ceil`: the smallest whole number that is not less.
//!
//! ```text
//! { $ceil: 1.2 } => 2.0
//! { $ceil: -1.2 } => -1.0
//! { $ceil: 5 } => 5
//! { $ceil: Decimal("1.2") } => Decimal("2")
//! { $ceil: "$a" } => null
//! { $ceil: "x" } => error 28765: $ceil only supports numeric types, not string
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{Rounding, numeric, round};

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$ceil", value, |number| Ok(round(number, 0, Rounding::Up)))
}
