//! `$tanh`: the hyperbolic tangent.
//!
//! ```text
//! { $tanh: 0 } => 0.0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::{Function, exponential};

const FUNCTION: Function = Function { double: f64::tanh, decimal: |math, x| exponential(x, || math.tanh(x, None)) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$tanh", value, |number| Ok(FUNCTION.of(number)))
}
