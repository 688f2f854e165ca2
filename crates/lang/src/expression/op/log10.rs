//! `$log10`: the logarithm to base ten.
//!
//! ```text
//! { $log10: 1000 } => 3.0
//! { $log10: "$a" } => null
//! { $log10: 0 } => error 28761: $log10's argument must be a positive number, but is 0
//! ```

use crate::expression::Evaluated;
use crate::expression::arithmetic::{is_zero_or_less, numeric};
use crate::expression::real::Function;
use crate::{Error, Result};

const FUNCTION: Function = Function { double: f64::log10, decimal: |math, x| math.log10(x, None) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$log10", value, |number| {
        if is_zero_or_less(number) {
            let message = format!("$log10's argument must be a positive number, but is {}", number.as_value());
            return Err(Error::location(28761, message));
        }
        Ok(FUNCTION.of(number))
    })
}
