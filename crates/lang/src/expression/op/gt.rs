//! `$gt`: whether the first value is greater, types included. Missing is less than null and equals undefined.
//!
//! ```text
//! { $gt: [2, 1] } => true
//! { $gt: ["a", 1] } => true
//! { $gt: [1, 1] } => false
//! ```

use crate::expression::Evaluated;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b, collation).is_gt().into())
}
