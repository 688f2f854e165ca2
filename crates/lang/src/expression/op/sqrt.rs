//! `$sqrt`: the square root.
//!
//! ```text
//! { $sqrt: 9 } => 3.0
//! { $sqrt: "$a" } => null
//! { $sqrt: -1 } => error 28714: $sqrt's argument must be greater than or equal to 0
//! { $sqrt: "x" } => error 28765: $sqrt only supports numeric types, not string
//! ```

use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};
use crate::{Error, Result};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$sqrt", value, |number| {
        if number.to_f64() < 0.0 {
            return Err(Error::location(28714, "$sqrt's argument must be greater than or equal to 0"));
        }
        Ok(in_doubles(number, f64::sqrt))
    })
}
