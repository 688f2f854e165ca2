//! `$lt`: whether the first value is less, types included. Nothing is less than null and stands beside undefined.
//!
//! ```text
//! { $lt: [1, 2] } => true
//! { $lt: ["$a", null] } => true
//! { $lt: ["a", 1] } => false
//! ```

use crate::Result;
use crate::expression::Evaluated;

pub fn eval<'a>(a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b).is_lt().into())
}
