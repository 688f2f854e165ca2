//! `$cosh`: the hyperbolic cosine.
//!
//! ```text
//! { $cosh: 0 } => 1.0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::{Function, exponential};

const FUNCTION: Function = Function { double: f64::cosh, decimal: |math, x| exponential(x, || math.cosh(x, None)) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$cosh", value, |number| Ok(FUNCTION.of(number)))
}
