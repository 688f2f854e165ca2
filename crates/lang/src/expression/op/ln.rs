//! `$ln`: the natural logarithm.
//!
//! ```text
//! { $ln: 1 } => 0.0
//! { $ln: "$a" } => null
//! { $ln: 0 } => error 28766: $ln's argument must be a positive number, but is 0
//! { $ln: "x" } => error 28765: $ln only supports numeric types, not string
//! ```

use crate::expression::Evaluated;
use crate::expression::arithmetic::{is_zero_or_less, numeric};
use crate::expression::real::Function;
use crate::{Error, Result};

pub(super) const FUNCTION: Function = Function { double: f64::ln, decimal: |math, x| math.ln(x, None) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$ln", value, |number| {
        if is_zero_or_less(number) {
            let message = format!("$ln's argument must be a positive number, but is {}", number.as_value());
            return Err(Error::location(28766, message));
        }
        Ok(FUNCTION.of(number))
    })
}
