//! `$degreesToRadians`: degrees as radians.
//!
//! ```text
//! { $degreesToRadians: 180 } => 3.141592653589793
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$degreesToRadians", value, |number| Ok(in_doubles(number, f64::to_radians)))
}
