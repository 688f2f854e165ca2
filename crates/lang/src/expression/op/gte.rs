//! `$gte`: whether the first value is greater or equal, types included. Missing is less than null and equals undefined.
//!
//! ```text
//! { $gte: [1, 1] } => true
//! { $gte: [null, "$a"] } => true
//! ```

use crate::expression::Evaluated;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b, collation).is_ge().into())
}
