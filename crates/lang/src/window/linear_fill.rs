//! `$linearFill`: null and missing values on the line between the values around them, along `sortBy`.

use std::sync::Arc;

use arbor_bson::{Number, Value};

use super::rows::Place;
use super::{Call, Column, Rows, WindowFunction};
use crate::{Error, Expression, Result, text};

#[derive(Clone, Debug)]
struct LinearFill {
    input: Expression,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    call.refuse_window()?;
    call.require_single_sort(605001)?;
    Ok(Arc::new(LinearFill { input: Expression::parse(call.argument, call.context)? }))
}

impl WindowFunction for LinearFill {
    fn start(&self) -> Box<dyn Column> {
        Box::new(Line { function: self.clone(), left: None, right: None, before: None })
    }
}

struct Line {
    function: LinearFill,
    /// The last value, with its place.
    left: Option<(f64, Number)>,
    /// The next row with a value: its position, its place and the value; the number of rows when there is none.
    right: Option<(usize, Option<(f64, Number)>)>,
    /// Place of the row before.
    before: Option<f64>,
}

impl Line {
    /// None for null and missing.
    fn known(&self, at: usize, rows: &Rows) -> Result<Option<Number>> {
        let Some(doc) = rows.get(at) else { return Ok(None) };
        match self.function.input.eval(doc.as_doc())? {
            None | Some(Value::Null | Value::Undefined) => Ok(None),
            Some(value) => match Number::of(value.as_ref()) {
                Some(number) => Ok(Some(number)),
                None => {
                    let found = text::type_name(Some(value.as_ref()));
                    let message = format!("Value to be filled must be numeric or nullish, but it was {found}");
                    Err(Error::type_mismatch(message))
                }
            },
        }
    }

    fn next_known(&mut self, at: usize, rows: &Rows) -> Result<Option<(f64, Number)>> {
        if let Some((position, known)) = self.right
            && position > at
        {
            return Ok(known);
        }
        let mut position = at + 1;
        while position < rows.len() {
            if let Some(number) = self.known(position, rows)? {
                self.right = Some((position, Some((place(position, rows)?, number))));
                return Ok(self.right.and_then(|(_, known)| known));
            }
            position += 1;
        }
        self.right = Some((usize::MAX, None));
        Ok(None)
    }
}

fn place(at: usize, rows: &Rows) -> Result<f64> {
    match rows.place(at) {
        Some(Place::Number(number)) => Ok(number.to_f64()),
        Some(Place::Date(millis)) => Ok(millis as f64),
        None => {
            let found = text::type_name(Some(rows.sort_value(at)));
            let message =
                format!("$linearFill requires that the sortBy field be numeric or a date, but it was {found}");
            Err(Error::type_mismatch(message))
        }
    }
}

impl Column for Line {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let here = place(at, rows)?;
        if self.before.replace(here) == Some(here) {
            return Err(Error::location(6050106, "There can be no repeated values in the sort field"));
        }
        if let Some(number) = self.known(at, rows)? {
            self.left = Some((here, number));
            return Ok(number.to_value());
        }
        let Some((left_place, left)) = self.left else { return Ok(Value::Null) };
        let Some((right_place, right)) = self.next_known(at, rows)? else { return Ok(Value::Null) };
        let share = Number::Double((here - left_place) / (right_place - left_place));
        Ok((left + (right - left) * share).to_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::doc;
    use crate::{Context, SortPattern};

    #[test]
    fn a_long_gap_is_looked_over_once() {
        let sort_by = SortPattern::parse(doc("{x: 1}").as_doc(), &crate::Context::new(0)).unwrap();
        let mut docs: Vec<_> = (0..20_000).map(|n| doc(&format!("{{x: {n}}}"))).collect();
        docs[0] = doc("{x: 0, v: 0}");
        let mut rows = Rows::new(sort_by.clone());
        docs.into_iter().for_each(|doc| rows.push(doc));
        let spec = crate::notation::value("{$linearFill: '$v'}");
        let function = super::super::parse("f", spec.as_ref(), &sort_by, &Context::default()).unwrap();
        let mut column = function.start();
        for at in 1..rows.len() {
            column.value(at, &rows).unwrap();
        }
    }
}
