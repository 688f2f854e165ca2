//! `$sqrt`: the square root.
//!
//! ```text
//! { $sqrt: 9 } => 3.0
//! { $sqrt: "$a" } => null
//! { $sqrt: -1 } => error 28714: $sqrt's argument must be greater than or equal to 0
//! { $sqrt: "x" } => error 28765: $sqrt only supports numeric types, not string
//! ```

use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::Function;
use crate::{Error, Result};

const FUNCTION: Function = Function { double: f64::sqrt, decimal: |math, x| math.sqrt(x) };

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$sqrt", value, |number| {
        if number.to_f64() < 0.0 {
            return Err(Error::location(28714, "$sqrt's argument must be greater than or equal to 0"));
        }
        Ok(FUNCTION.of(number))
    })
}
