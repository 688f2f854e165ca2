//! `$ne`: whether two values differ. Nothing is less than null and stands beside undefined.
//!
//! ```text
//! { $ne: [1, 1.0] } => false
//! { $ne: ["$a", null] } => true
//! ```

use crate::Result;
use crate::expression::Evaluated;

pub fn eval<'a>(a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b).is_ne().into())
}
