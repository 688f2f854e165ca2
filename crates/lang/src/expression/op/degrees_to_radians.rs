//! `$degreesToRadians`: degrees as radians.
//!
//! ```text
//! { $degreesToRadians: 180 } => 3.141592653589793
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::{Function, turned};

const FUNCTION: Function = Function { double: f64::to_radians, decimal: |_, x| turned(x, true) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$degreesToRadians", value, |number| Ok(FUNCTION.of(number)))
}
