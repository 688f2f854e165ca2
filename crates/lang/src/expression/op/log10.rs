//! `$log10`: the logarithm to base ten.
//!
//! ```text
//! { $log10: 1000 } => 3.0
//! { $log10: "$a" } => null
//! { $log10: 0 } => error 28761: $log10's argument must be a positive number, but is 0
//! ```

use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};
use crate::{Error, Result};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$log10", value, |number| {
        if number.to_f64() <= 0.0 {
            let message = format!("$log10's argument must be a positive number, but is {}", number.as_value());
            return Err(Error::location(28761, message));
        }
        Ok(in_doubles(number, f64::log10))
    })
}
