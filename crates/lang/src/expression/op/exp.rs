//! `$exp`: e raised to a number.
//!
//! ```text
//! { $exp: 0 } => 1.0
//! { $exp: "$a" } => null
//! { $exp: "x" } => error 28765: $exp only supports numeric types, not string
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{in_doubles, numeric};

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    numeric("$exp", value, |number| Ok(in_doubles(number, f64::exp)))
}
