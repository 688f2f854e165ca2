//! `$bitXor`: the bits that an odd number of the whole numbers has.
//!
//! ```text
//! { $bitXor: [6, 3] } => 5
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::bitwise::combine;

pub(super) fn eval(operands: Vec<Evaluated>) -> Result<Evaluated> {
    combine("$bitXor", operands, 0, |a, b| a ^ b)
}
