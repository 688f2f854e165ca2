//! `$round`: rounds to a number of digits, halves to the even neighbour.
//!
//! ```text
//! { $round: 2.5 } => 2.0
//! { $round: [2.655, 2] } => 2.65
//! { $round: [Decimal("2.655"), 2] } => Decimal("2.66")
//! { $round: [Decimal("2.5"), 3] } => Decimal("2.500")
//! { $round: [1, "x"] } => error 16004: can't convert from BSON type string to long
//! { $round: [1234, -2] } => 1200
//! { $round: [1250, -2] } => 1200
//! { $round: [Decimal("2.345"), 2] } => Decimal("2.34")
//! { $round: ["$a", 1] } => null
//! { $round: "x" } => error 51081: $round only supports numeric types, not string
//! { $round: [1, 101] } => error 51083: cannot apply $round with precision value 101 value must be in [-20, 100]
//! { $round: [1, 1.5] } => error 51082: precision argument to  $round must be a integral value
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::arithmetic::{Rounding, round_to_place};

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    round_to_place("$round", arguments, Rounding::HalfEven)
}
