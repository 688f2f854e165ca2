//! `$sinh`: the hyperbolic sine.
//!
//! ```text
//! { $sinh: 0 } => 0.0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::{Function, exponential};

const FUNCTION: Function = Function { double: f64::sinh, decimal: |math, x| exponential(x, || math.sinh(x, None)) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$sinh", value, |number| Ok(FUNCTION.of(number)))
}
