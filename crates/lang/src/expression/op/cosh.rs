//! `$cosh`: the hyperbolic cosine.
//!
//! ```text
//! { $cosh: 0 } => 1.0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$cosh", value, |number| Ok(in_doubles(number, f64::cosh)))
}
