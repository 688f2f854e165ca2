//! `$sinh`: the hyperbolic sine.
//!
//! ```text
//! { $sinh: 0 } => 0.0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$sinh", value, |number| Ok(in_doubles(number, f64::sinh)))
}
