//! `$min`: the smallest of the arguments, or of the elements of the only one; null and nothing do not count.
//!
//! ```text
//! { $min: [3, 1, null] } => 1
//! { $min: "$a" } on { a: ["x", 5] } => 5
//! { $min: "$a" } => null
//! ```

use crate::accumulator::Extreme;
use crate::expression::Evaluated;
use crate::expression::over::for_each;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, arguments: Vec<Evaluated<'a>>) -> Result<Evaluated<'a>> {
    let mut min = Extreme::least(collation);
    for_each(&arguments, |value| min.consider(value));
    Ok(min.best().into())
}
