//! `$stdDevPop`: the standard deviation of all numbers there are.
//!
//! ```text
//! { $stdDevPop: [1, 3] } => 1.0
//! { $stdDevPop: "$a" } => null
//! ```

use arbor_bson::Number;

use crate::Result;
use crate::accumulator::{Estimator, StdDev};
use crate::expression::Evaluated;
use crate::expression::over::for_each;

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut state = StdDev::new(Estimator::Population);
    for_each(&arguments, |value| Number::of(value).into_iter().for_each(|number| state.add_number(number)));
    Ok(state.deviation().into())
}
