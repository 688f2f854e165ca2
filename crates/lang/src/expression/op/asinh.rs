//! `$asinh`: the inverse hyperbolic sine.
//!
//! ```text
//! { $asinh: 0 } => 0.0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::Function;

const FUNCTION: Function = Function { double: f64::asinh, decimal: |math, x| math.asinh(x, None) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$asinh", value, |number| Ok(FUNCTION.of(number)))
}
