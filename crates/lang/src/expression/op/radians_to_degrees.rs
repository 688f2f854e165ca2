//! `$radiansToDegrees`: radians as degrees.
//!
//! ```text
//! { $radiansToDegrees: 0 } => 0.0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::numeric;
use crate::expression::real::{Function, turned};

const FUNCTION: Function = Function { double: f64::to_degrees, decimal: |_, x| turned(x, false) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$radiansToDegrees", value, |number| Ok(FUNCTION.of(number)))
}
