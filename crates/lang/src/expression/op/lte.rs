//! `$lte`: whether the first value is less or equal, types included. Missing is less than null and equals undefined.
//!
//! ```text
//! { $lte: [1, 1] } => true
//! { $lte: [2, 1] } => false
//! ```

use crate::expression::Evaluated;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok(a.compare(&b, collation).is_le().into())
}
