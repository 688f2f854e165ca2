//! `$bitOr`: the bits that one of the whole numbers has.
//!
//! ```text
//! { $bitOr: [6, 3] } => 7
//! { $bitOr: [] } => 0
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::bitwise::combine;

pub(super) fn eval(operands: Vec<Evaluated>) -> Result<Evaluated> {
    combine("$bitOr", operands, 0, |a, b| a | b)
}
