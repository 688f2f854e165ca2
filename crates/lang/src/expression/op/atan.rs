//! `$atan`: the angle in radians whose tangent this is.
//!
//! ```text
//! { $atan: 0 } => 0.0
//! { $atan: "$a" } => null
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$atan", value, |number| Ok(in_doubles(number, f64::atan)))
}
