//! `$lte`: whether the first value is less or equal, types included. Nothing is less than null and stands beside undefined.
//!
//! ```text
//! { $lte: [1, 1] } => true
//! { $lte: [2, 1] } => false
//! ```

use crate::Result;
use crate::expression::Evaluated;

pub fn eval<'a>(a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b).is_le().into())
}
