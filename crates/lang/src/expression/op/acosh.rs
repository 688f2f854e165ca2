//! `$acosh`: the inverse hyperbolic cosine.
//!
//! ```text
//! { $acosh: 1 } => 0.0
//! { $acosh: 0 } => error 50989: cannot apply $acosh to 0, value must be in [1,inf]
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;
use crate::expression::real::Function;

const FUNCTION: Function = Function { double: f64::acosh, decimal: |math, x| math.acosh(x, None) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$acosh", value, ("[1,inf]", |v| v >= 1.0), FUNCTION)
}
