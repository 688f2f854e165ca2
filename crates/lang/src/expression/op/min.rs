//! `$min`: the smallest of the arguments, or of the elements of the only one; null and nothing do not count.
//!
//! ```text
//! { $min: [3, 1, null] } => 1
//! { $min: "$a" } on { a: ["x", 5] } => 5
//! { $min: "$a" } => null
//! ```

use crate::Result;
use crate::accumulator::Extreme;
use crate::expression::Evaluated;
use crate::expression::over::for_each;

pub fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut min = Extreme::least();
    for_each(&arguments, |value| min.consider(value));
    Ok(min.best().into())
}
