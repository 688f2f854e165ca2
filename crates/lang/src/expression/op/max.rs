//! `$max`: the greatest of the arguments, or of the elements of the only one; null and nothing do not count.
//!
//! ```text
//! { $max: [3, 1, null] } => 3
//! { $max: "$a" } on { a: ["x", 5] } => "x"
//! { $max: "$a" } => null
//! ```

use crate::Result;
use crate::accumulator::Extreme;
use crate::expression::Evaluated;
use crate::expression::over::for_each;

pub fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut max = Extreme::greatest();
    for_each(&arguments, |value| max.consider(value));
    Ok(max.best().into())
}
