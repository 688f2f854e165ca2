//! `$stdDevSamp`: the standard deviation of numbers that are a sample.
//!
//! ```text
//! { $stdDevSamp: [1, 3] } => 1.4142135623730951
//! { $stdDevSamp: [1] } => null
//! ```

use arbor_bson::Number;

use crate::Result;
use crate::accumulator::{Estimator, StdDev};
use crate::expression::Evaluated;
use crate::expression::over::for_each;

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut state = StdDev::new(Estimator::Sample);
    for_each(&arguments, |value| Number::of(value).into_iter().for_each(|number| state.add_number(number)));
    Ok(state.deviation().into())
}
