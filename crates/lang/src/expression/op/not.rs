//! `$not`: true for false, zero, null, undefined and nothing.
//!
//! ```text
//! { $not: [0] } => true
//! { $not: ["x"] } => false
//! { $not: ["$a"] } => true
//! ```

use crate::Result;
use crate::expression::Evaluated;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    Ok((!value.is_true()).into())
}
