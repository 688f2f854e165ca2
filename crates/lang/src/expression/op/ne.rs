//! `$ne`: whether two values differ. Missing is less than null and equals undefined.
//!
//! ```text
//! { $ne: [1, 1.0] } => false
//! { $ne: ["$a", null] } => true
//! ```

use crate::expression::Evaluated;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b, collation).is_ne().into())
}
