//! `$ln`: the natural logarithm.
//!
//! ```text
//! { $ln: 1 } => 0.0
//! { $ln: "$a" } => null
//! { $ln: 0 } => error 28766: $ln's argument must be a positive number, but is 0
//! { $ln: "x" } => error 28765: $ln only supports numeric types, not string
//! ```

use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};
use crate::{Error, Result};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$ln", value, |number| {
        if number.to_f64() <= 0.0 {
            let message = format!("$ln's argument must be a positive number, but is {}", number.as_value());
            return Err(Error::location(28766, message));
        }
        Ok(in_doubles(number, f64::ln))
    })
}
