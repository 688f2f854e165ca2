//! `$tan`: the tangent of an angle in radians.
//!
//! ```text
//! { $tan: 0 } => 0.0
//! { $tan: "$a" } => null
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;
use crate::expression::real::{Function, periodic};

const FUNCTION: Function = Function { double: f64::tan, decimal: |math, x| periodic(x, || math.tan(x, None)) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$tan", value, ("(-inf,inf)", |v| v.is_finite()), FUNCTION)
}
