//! `$eq`: whether two values are equal. Nothing is less than null and stands beside undefined.
//!
//! ```text
//! { $eq: [1, 1.0] } => true
//! { $eq: ["$a", null] } => false
//! { $eq: [[1], [1]] } => true
//! ```

use crate::Result;
use crate::expression::Evaluated;

pub fn eval<'a>(a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b).is_eq().into())
}
