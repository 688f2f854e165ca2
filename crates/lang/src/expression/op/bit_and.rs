//! `$bitAnd`: the bits that all whole numbers have.
//!
//! ```text
//! { $bitAnd: [6, 3] } => 2
//! { $bitAnd: [6, Long(3)] } => Long(2)
//! { $bitAnd: [] } => -1
//! { $bitAnd: [6, "$a"] } => null
//! { $bitAnd: [6, 1.5] } => error 14: $bitAnd only supports int and long operands.
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::bitwise::combine;

pub(super) fn eval(operands: Vec<Evaluated>) -> Result<Evaluated> {
    combine("$bitAnd", operands, -1, |a, b| a & b)
}
