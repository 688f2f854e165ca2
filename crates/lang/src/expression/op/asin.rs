//! `$asin`: the angle in radians whose sine this is.
//!
//! ```text
//! { $asin: 0 } => 0.0
//! { $asin: 2 } => error 50989: cannot apply $asin to 2, value must be in [-1,1]
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;
use crate::expression::real::Function;

const FUNCTION: Function = Function { double: f64::asin, decimal: |math, x| math.asin(x, None) };

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$asin", value, ("[-1,1]", |v| (-1.0..=1.0).contains(&v)), FUNCTION)
}
