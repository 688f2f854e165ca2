//! `$acos`: the angle in radians whose cosine this is.
//!
//! ```text
//! { $acos: 1 } => 0.0
//! { $acos: 2 } => error 50989: cannot apply $acos to 2, value must be in [-1,1]
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;
use crate::expression::real::Function;

const FUNCTION: Function = Function { double: f64::acos, decimal: |math, x| math.acos(x, None) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$acos", value, ("[-1,1]", |v| (-1.0..=1.0).contains(&v)), FUNCTION)
}
