//! `$tan`: the tangent of an angle in radians.
//!
//! ```text
//! { $tan: 0 } => 0.0
//! { $tan: "$a" } => null
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$tan", value, ("(-inf,inf)", |v| v.is_finite()), f64::tan)
}
