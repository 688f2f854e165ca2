//! `$cmp`: the order of two values as -1, 0 or 1.
//!
//! ```text
//! { $cmp: [1, 2] } => -1
//! { $cmp: [1, 1.0] } => 0
//! { $cmp: ["a", 2] } => 1
//! ```

use crate::expression::Evaluated;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    Ok((a.compare(&b, collation) as i32).into())
}
