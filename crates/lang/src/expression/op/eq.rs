//! `$eq`: whether two values are equal. Missing is less than null and equals undefined.
//!
//! ```text
//! { $eq: [1, 1.0] } => true
//! { $eq: ["$a", null] } => false
//! { $eq: [[1], [1]] } => true
//! ```

use crate::expression::Evaluated;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b, collation).is_eq().into())
}
