//! `$percentile`: `{ input, p: [0.5, ..], method: "approximate" }`, and `$median`, which is the one of 0.5: the least
//! number that so great a share of the numbers do not exceed. Other values do not count; null without any number.
//!
//! All numbers are kept as doubles (8 bytes each), so the results are exact where MongoDB's may be approximate.

use arbor_bson::{ArrayBuf, Doc, Number, Value, ValueRef};

use super::{State, elements};
use crate::expression::{Evaluated, Parser};
use crate::{Context, Error, Expression, Result, number, text};

#[derive(Clone, Debug)]
pub struct Percentile {
    /// `None`: the median, a value and not an array.
    shares: Option<Vec<f64>>,
}

impl Percentile {
    /// Parses the input and the percentiles.
    pub fn parse(name: &str, operand: ValueRef, context: &Context) -> Result<(Expression, Percentile)> {
        let (input, percentile) = Percentile::read(name, operand, context)?;
        Ok((Expression::parse(input, context)?, percentile))
    }

    /// Like `parse`, but the input is parsed by `parser`, with its variables.
    pub fn parse_in(name: &str, operand: ValueRef, parser: &mut Parser) -> Result<(Expression, Percentile)> {
        let (input, percentile) = Percentile::read(name, operand, parser.context)?;
        Ok((parser.expression(input)?, percentile))
    }

    fn read<'v>(name: &str, operand: ValueRef<'v>, context: &Context) -> Result<(ValueRef<'v>, Percentile)> {
        let ValueRef::Document(spec) = operand else {
            let found = text::type_name(Some(operand));
            let message = format!("specification must be an object; found {name}: {found}");
            return Err(Error::location(if name == "$median" { 7436100 } else { 7429703 }, message));
        };
        let asks_shares = name == "$percentile";
        let known = |field: &str| matches!(field, "input" | "method") || (asks_shares && field == "p");
        if let Some((unknown, _)) = spec.iter().find(|(field, _)| !known(field)) {
            return Err(Error::location(40415, format!("BSON field '{name}.{unknown}' is an unknown field.")));
        }
        let require = |field: &str| {
            let message = format!("BSON field '{name}.{field}' is missing but a required field");
            spec.get(field).ok_or_else(|| Error::location(40414, message))
        };
        let input = require("input")?;
        match require("method")? {
            ValueRef::String("approximate") => {}
            _ => {
                let message = "Currently only 'approximate' can be used as percentile 'method'.";
                return Err(Error::bad_value(message));
            }
        }
        let shares = match asks_shares {
            true => Some(read_shares(require("p")?, context)?),
            false => None,
        };
        Ok((input, Percentile { shares }))
    }

    pub fn start(&self) -> Box<dyn State> {
        Box::new(Numbers { percentile: self.clone(), numbers: Vec::new() })
    }

    /// Returns the result for these numbers, in any order.
    pub fn of(&self, mut numbers: Vec<f64>) -> Value {
        numbers.sort_unstable_by(f64::total_cmp);
        self.at_ranks(numbers.len(), |rank| numbers.get(rank).copied())
    }

    /// Returns the result for `count` numbers, which `number` finds by their rank.
    pub fn at_ranks(&self, count: usize, number: impl Fn(usize) -> Option<f64>) -> Value {
        let at = |share: f64| {
            let rank = (count as f64 * share).ceil() as usize;
            number(rank.saturating_sub(1)).map_or(Value::Null, Value::Double)
        };
        match &self.shares {
            None => at(0.5),
            Some(shares) => {
                Value::Array(shares.iter().map(|share| at(*share)).collect::<Vec<_>>().iter().collect::<ArrayBuf>())
            }
        }
    }
}

/// A value that counts.
pub(super) fn number_of(value: &Evaluated) -> Option<f64> {
    value.get().and_then(Number::of).filter(|number| !number.is_nan()).map(Number::to_f64)
}

fn read_shares(value: ValueRef, context: &Context) -> Result<Vec<f64>> {
    let wrong = |found: ValueRef| {
        let shown = text::shell(found);
        let message =
            format!("The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: {shown}");
        Error::location(7750301, message)
    };
    let Some(Value::Array(shares)) = Expression::parse(value, context)?.into_constant() else {
        return Err(Error::location(7750301, "The $percentile 'p' field must be an array of constant values"));
    };
    let shares = shares.as_array();
    if shares.is_empty() {
        return Err(wrong(ValueRef::Array(shares)));
    }
    let read = |share| {
        let number = number::to_f64(share).ok_or_else(|| wrong(share))?;
        if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(Error::location(7750303, wrong(share).message)) }
    };
    shares.iter().map(read).collect()
}

#[derive(Debug)]
struct Numbers {
    percentile: Percentile,
    numbers: Vec<f64>,
}

impl State for Numbers {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        self.numbers.extend(number_of(&value));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        let Numbers { percentile, numbers } = *self;
        percentile.of(numbers)
    }

    /// The bytes of the numbers.
    fn partial(&self) -> Value {
        let bytes = self.numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut parts = ArrayBuf::new();
        parts.push(&Value::Binary { subtype: 0, bytes });
        Value::Array(parts)
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        for part in elements(partial) {
            let ValueRef::Binary { bytes, .. } = part else { continue };
            let (numbers, _) = bytes.as_chunks::<8>();
            self.numbers.extend(numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)));
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        8 * self.numbers.capacity()
    }
}
