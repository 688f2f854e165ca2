//! `$lt`: whether the first value is less, types included. Missing is less than null and equals undefined.
//!
//! ```text
//! { $lt: [1, 2] } => true
//! { $lt: ["$a", null] } => true
//! { $lt: ["a", 1] } => false
//! ```

use crate::expression::Evaluated;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b, collation).is_lt().into())
}
