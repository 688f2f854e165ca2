//! `$cos`: the cosine of an angle in radians.
//!
//! ```text
//! { $cos: 0 } => 1.0
//! { $cos: "$a" } => null
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::within;

pub fn eval(value: Evaluated) -> Result<Evaluated> {
    within("$cos", value, ("(-inf,inf)", |v| v.is_finite()), f64::cos)
}
