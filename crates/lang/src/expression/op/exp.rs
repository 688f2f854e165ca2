//! `$exp`: e raised to a number.
//!
//! ```text
//! { $exp: 0 } => 1.0
//! { $exp: "$a" } => null
//! { $exp: "x" } => error 28765: $exp only supports numeric types, not string
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::{Function, exponential};

pub(super) const FUNCTION: Function =
    Function { double: f64::exp, decimal: |math, x| exponential(x, || math.exp(x, None)) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$exp", value, |number| Ok(FUNCTION.of(number)))
}
