//! `$tanh`: the hyperbolic tangent.
//!
//! ```text
//! { $tanh: 0 } => 0.0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$tanh", value, |number| Ok(in_doubles(number, f64::tanh)))
}
