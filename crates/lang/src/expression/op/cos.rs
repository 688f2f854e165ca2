//! `$cos`: the cosine of an angle in radians.
//!
//! ```text
//! { $cos: 0 } => 1.0
//! { $cos: "$a" } => null
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;
use crate::expression::real::{Function, periodic};

const FUNCTION: Function = Function { double: f64::cos, decimal: |math, x| periodic(x, || math.cos(x, None)) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$cos", value, ("(-inf,inf)", |v| v.is_finite()), FUNCTION)
}
