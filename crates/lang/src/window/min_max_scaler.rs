//! `$minMaxScaler`: a number, or `{ input, min, max }`; where the number of a row is between the least and the greatest of its window, on
//! a scale from `min` to `max`, by default from 0 to 1. A window of equal numbers gives `min`.

use std::cmp::Ordering;
use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, Number, Value, ValueRef};

use super::sliding::{Gather, Sliding};
use super::{Bounds, Call, Column, Rows, Window, WindowFunction};
use crate::accumulator::State;
use crate::expression::{Environment, Evaluated};
use crate::{Error, Expression, Result};

#[derive(Clone, Debug)]
struct MinMaxScaler {
    input: Expression,
    min: Number,
    max: Number,
    bounds: Bounds,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    let mut scale = (Number::Int32(0), Number::Int32(1));
    let input = match call.argument {
        ValueRef::Document(spec) if spec.iter().all(|(name, _)| !name.starts_with('$')) => {
            if let Some((other, _)) = spec.iter().find(|(name, _)| !matches!(*name, "input" | "min" | "max")) {
                return Err(Error::failed_to_parse(format!("$minMaxScaler found an unknown argument: {other}")));
            }
            for (name, end) in [("min", &mut scale.0), ("max", &mut scale.1)] {
                if let Some(value) = spec.get(name) {
                    *end = constant(name, value, call)?;
                }
            }
            let missing = || Error::failed_to_parse("$minMaxScaler requires an 'input' expression");
            spec.get("input").ok_or_else(missing)?
        }
        input => input,
    };
    if !order(scale.0, scale.1).is_lt() {
        return Err(Error::failed_to_parse("'min' of $minMaxScaler must be less than 'max'"));
    }
    let (min, max) = scale;
    Ok(Arc::new(MinMaxScaler { input: Expression::parse(input, call.context)?, min, max, bounds: call.bounds()? }))
}

fn constant(name: &str, value: ValueRef, call: &Call) -> Result<Number> {
    let value = Expression::parse(value, call.context)?.into_constant();
    let number = value.as_ref().and_then(|value| Number::of(value.as_ref()));
    number.ok_or_else(|| Error::failed_to_parse(format!("'{name}' of $minMaxScaler must be a constant number")))
}

impl WindowFunction for MinMaxScaler {
    fn start(&self) -> Box<dyn Column> {
        Box::new(Scaled { function: self.clone(), window: self.bounds.start(), sliding: Sliding::default() })
    }

    fn look_back(&self) -> Option<usize> {
        self.bounds.rows_back().map(|(last, _)| last)
    }
}

struct Scaled {
    function: MinMaxScaler,
    window: Window,
    sliding: Sliding,
}

impl Column for Scaled {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let window = self.window.of(at, rows)?;
        let gather = OfNumbers { function: &self.function, rows };
        let number = gather.number(at)?;
        let ends = self.sliding.over(window, self.function.bounds.lets_go(), &gather)?;
        let Some((low, high)) = Ends::read(ends.as_ref()) else { return Ok(Value::Null) };
        let MinMaxScaler { min, max, .. } = self.function;
        let width = high - low;
        if width.to_f64() == 0.0 {
            return Ok(min.to_value());
        }
        Ok((over(number - low, width) * (max - min) + min).to_value())
    }

    fn size_bytes(&self) -> usize {
        self.sliding.size_bytes()
    }
}

fn order(a: Number, b: Number) -> Ordering {
    a.as_value().compare(b.as_value())
}

fn over(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => Number::Decimal(a.to_decimal() / b.to_decimal()),
        _ => Number::Double(a.to_f64() / b.to_f64()),
    }
}

struct OfNumbers<'r> {
    function: &'r MinMaxScaler,
    rows: &'r Rows,
}

impl OfNumbers<'_> {
    fn number(&self, at: usize) -> Result<Number> {
        let doc = self.rows.get(at).map_or(Doc::empty(), |doc| doc.as_doc());
        number_of(&self.function.input.eval_in(&Environment::new(doc))?)
    }
}

fn number_of(value: &Evaluated) -> Result<Number> {
    let wrong = || Error::type_mismatch(format!("$minMaxScaler's input must be numeric, not {}", value.type_name()));
    value.get().and_then(Number::of).ok_or_else(wrong)
}

impl Gather for OfNumbers<'_> {
    fn start(&self) -> Box<dyn State> {
        Box::new(Ends(None))
    }

    fn add(&self, state: &mut dyn State, at: usize) -> Result<()> {
        let doc = self.rows.get(at).map_or(Doc::empty(), |doc| doc.as_doc());
        state.add(self.function.input.eval_in(&Environment::new(doc))?, doc)
    }
}

/// The least and the greatest number.
#[derive(Debug)]
struct Ends(Option<(Number, Number)>);

impl Ends {
    fn read(partial: ValueRef) -> Option<(Number, Number)> {
        let ValueRef::Array(ends) = partial else { return None };
        Some((Number::of(ends.get(0)?)?, Number::of(ends.get(1)?)?))
    }

    fn widen(&mut self, low: Number, high: Number) {
        self.0 = Some(match self.0 {
            None => (low, high),
            Some((least, greatest)) => (
                if order(low, least).is_lt() { low } else { least },
                if order(high, greatest).is_gt() { high } else { greatest },
            ),
        });
    }
}

impl State for Ends {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        let number = number_of(&value)?;
        self.widen(number, number);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.partial()
    }

    fn partial(&self) -> Value {
        let ends = self.0.into_iter().flat_map(|(low, high)| [low, high]);
        Value::Array(ends.map(Number::as_value).collect::<ArrayBuf>())
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        if let Some((low, high)) = Ends::read(partial) {
            self.widen(low, high);
        }
        Ok(())
    }
}
