//! `$sin`: the sine of an angle in radians.
//!
//! ```text
//! { $sin: 0 } => 0.0
//! { $sin: "$a" } => null
//! { $sin: "x" } => error 28765: $sin only supports numeric types, not string
//! { $sin: Infinity } => error 50989: cannot apply $sin to inf, value must be in (-inf,inf)
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;
use crate::expression::real::{Function, periodic};

const FUNCTION: Function = Function { double: f64::sin, decimal: |math, x| periodic(x, || math.sin(x, None)) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$sin", value, ("(-inf,inf)", |v| v.is_finite()), FUNCTION)
}
