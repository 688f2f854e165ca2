//! `$percentile`: percentiles of the numbers in an array, or of the only number.
//!
//! ```text
//! { $percentile: { input: [5, 1, 3, "x"], p: [0, 0.5, 0.75, 1], method: "approximate" } } => [1.0, 3.0, 5.0, 5.0]
//! { $percentile: { input: "$a", p: [0.9], method: "approximate" } } on { a: 7 } => [7.0]
//! { $percentile: { input: "$a", p: [0.9], method: "approximate" } } => [null]
//! { $percentile: { input: "$a", p: [2], method: "approximate" } } => error 7750303: The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: 2
//! { $percentile: { input: "$a", p: ["$b"], method: "approximate" } } => error 7750301: The $percentile 'p' field must be an array of constant values
//! { $percentile: { input: "$a", p: [0.5], method: "exact" } } => error 2: Currently only 'approximate' can be used as percentile 'method'.
//! { $percentile: { input: "$a", method: "approximate" } } => error 40414: BSON field '$percentile.p' is missing but a required field
//! ```

use std::sync::Arc;

use arbor_bson::{Number, ValueRef};

use crate::Result;
use crate::accumulator::Percentile;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};

#[derive(Debug)]
struct Percentiles {
    input: Expression,
    percentile: Percentile,
}

/// `$median` is parsed here too.
pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let (input, percentile) = Percentile::parse_in(name, value, parser)?;
    Ok(Expression::Special(Arc::new(Percentiles { input, percentile })))
}

impl Special for Percentiles {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let input = self.input.eval_in(environment)?;
        let number = |value| Number::of(value).filter(|number| !number.is_nan()).map(Number::to_f64);
        let numbers = match input.get() {
            Some(ValueRef::Array(values)) => values.iter().filter_map(number).collect(),
            other => other.and_then(number).into_iter().collect(),
        };
        Ok(Evaluated::Owned(self.percentile.of(numbers)))
    }

    fn parts(&self) -> Vec<&Expression> {
        vec![&self.input]
    }
}
