//! `$atanh`: the inverse hyperbolic tangent.
//!
//! ```text
//! { $atanh: 0 } => 0.0
//! { $atanh: 2 } => error 50989: cannot apply $atanh to 2, value must be in [-1,1]
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;
use crate::expression::real::Function;

const FUNCTION: Function = Function { double: f64::atanh, decimal: |math, x| math.atanh(x, None) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$atanh", value, ("[-1,1]", |v| (-1.0..=1.0).contains(&v)), FUNCTION)
}
