//! `$max`: the greatest of the arguments, or of the elements of the only one; null and nothing do not count.
//!
//! ```text
//! { $max: [3, 1, null] } => 3
//! { $max: "$a" } on { a: ["x", 5] } => "x"
//! { $max: "$a" } => null
//! ```

use crate::accumulator::Extreme;
use crate::expression::Evaluated;
use crate::expression::over::for_each;
use crate::{Collation, Result};

pub(super) fn eval<'a>(collation: &Collation, arguments: Vec<Evaluated<'a>>) -> Result<Evaluated<'a>> {
    let mut max = Extreme::greatest(collation);
    for_each(&arguments, |value| max.consider(value));
    Ok(max.best().into())
}
