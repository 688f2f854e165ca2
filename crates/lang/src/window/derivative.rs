//! `$derivative`: `{ input, unit }`; the slope between the first and the last row of a window.

use std::sync::Arc;

use arbor_bson::{Number, Value, ValueRef};

use super::{Bounds, Call, Column, Rows, Window, WindowFunction};
use crate::expression::{Evaluated, Unit};
use crate::{Error, Expression, Result, text};

#[derive(Clone, Debug)]
struct Derivative {
    input: Expression,
    unit_millis: Option<i64>,
    bounds: Bounds,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    call.require_single_sort(9)?;
    if call.window.is_none() {
        return Err(Error::failed_to_parse("$derivative requires explicit window bounds"));
    }
    let (input, unit_millis) = input_and_unit(call)?;
    Ok(Arc::new(Derivative { input, unit_millis, bounds: call.bounds()? }))
}

/// `{ input: <expression>, unit: <time unit of always the same length> }`.
pub(super) fn input_and_unit(call: &Call) -> Result<(Expression, Option<i64>)> {
    let name = call.name;
    let ValueRef::Document(spec) = call.argument else {
        return Err(Error::failed_to_parse(format!("{name} expects an object")));
    };
    if let Some((unknown, _)) = spec.iter().find(|(field, _)| !matches!(*field, "input" | "unit")) {
        return Err(Error::failed_to_parse(format!("{name} got unexpected argument: {unknown}")));
    }
    let input = spec.get("input");
    let input = input.ok_or_else(|| Error::failed_to_parse(format!("{name} requires an 'input' expression")))?;
    let input = Expression::parse(input, call.context)?;
    let Some(unit) = spec.get("unit") else { return Ok((input, None)) };
    let unit = match Unit::of(name, &Evaluated::Borrowed(unit), 5490704)? {
        Unit::Week => 7 * 24 * 3_600_000,
        Unit::Day => 24 * 3_600_000,
        other => other.millis().ok_or_else(|| Error::location(5490710, "unit must be 'week' or smaller"))?,
    };
    Ok((input, Some(unit)))
}

/// A number; none for null and missing.
pub(super) fn number_at(input: &Expression, rows: &Rows, at: usize, function: &str) -> Result<Option<f64>> {
    let Some(doc) = rows.get(at) else { return Ok(None) };
    let value = input.eval(doc.as_doc())?;
    match value.as_ref().map(Value::as_ref) {
        None | Some(ValueRef::Null | ValueRef::Undefined) => Ok(None),
        Some(value) => match Number::of(value) {
            Some(number) => Ok(Some(number.to_f64())),
            None => {
                let found = text::type_name(Some(value));
                Err(Error::type_mismatch(format!("{function} only supports numeric types, not {found}")))
            }
        },
    }
}

impl WindowFunction for Derivative {
    fn start(&self) -> Box<dyn Column> {
        Box::new(Slope { function: self.clone(), window: self.bounds.start() })
    }

    fn look_back(&self) -> Option<usize> {
        self.bounds.rows_back().and_then(|(_, first)| first)
    }
}

struct Slope {
    function: Derivative,
    window: Window,
}

impl Column for Slope {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let window = self.window.of(at, rows)?;
        if window.len() < 2 {
            return Ok(Value::Null);
        }
        let (first, last) = (window.start, window.end - 1);
        let Derivative { input, unit_millis, .. } = &self.function;
        let place = |at| rows.coordinate(at, "$derivative", *unit_millis, 5624900);
        let run = place(last)? - place(first)?;
        let from = number_at(input, rows, first, "$derivative")?;
        let to = number_at(input, rows, last, "$derivative")?;
        Ok(match (from, to) {
            (Some(from), Some(to)) if run != 0.0 => Value::Double((to - from) / run),
            _ => Value::Null,
        })
    }
}
