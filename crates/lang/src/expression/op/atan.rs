//! `$atan`: the angle in radians whose tangent this is.
//!
//! ```text
//! { $atan: 0 } => 0.0
//! { $atan: "$a" } => null
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::Function;

const FUNCTION: Function = Function { double: f64::atan, decimal: |math, x| math.atan(x, None) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$atan", value, |number| Ok(FUNCTION.of(number)))
}
