//! `$sum`: the sum of the numbers among the arguments, or in the only argument when it is an array.
//!
//! ```text
//! { $sum: [1, 2.5, "x"] } => 3.5
//! { $sum: "$a" } on { a: [1, 2] } => 3
//! { $sum: ["$a", 1] } on { a: [1, 2] } => 1
//! { $sum: "$a" } => 0
//! ```

use arbor_bson::Number;

use crate::Result;
use crate::accumulator::Sum;
use crate::expression::Evaluated;
use crate::expression::over::for_each;

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut sum = Sum::default();
    for_each(&arguments, |value| Number::of(value).into_iter().for_each(|number| sum.add_number(number)));
    Ok(sum.total().to_value().into())
}
