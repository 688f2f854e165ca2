//! `$avg`: the mean of the numbers among the arguments, or in the only argument when it is an array.
//!
//! ```text
//! { $avg: [1, 2, "x"] } => 1.5
//! { $avg: "$a" } on { a: [1, 4] } => 2.5
//! { $avg: "$a" } => null
//! ```

use arbor_bson::Number;

use crate::Result;
use crate::accumulator::Avg;
use crate::expression::Evaluated;
use crate::expression::over::for_each;

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut avg = Avg::default();
    for_each(&arguments, |value| Number::of(value).into_iter().for_each(|number| avg.add_number(number)));
    Ok(avg.mean().into())
}
