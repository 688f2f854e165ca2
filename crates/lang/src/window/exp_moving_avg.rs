//! `$expMovingAvg`: `{ input, N }` or `{ input, alpha }`; an average in which older rows count less and less.

use std::sync::Arc;

use arbor_bson::{Number, Value, ValueRef};

use super::{Call, Column, Rows, WindowFunction};
use crate::{Error, Expression, Result, number, text};

#[derive(Clone, Debug)]
struct ExpMovingAvg {
    input: Expression,
    /// Weight of the newest row.
    alpha: f64,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    if call.sort_by.is_empty() {
        return Err(Error::failed_to_parse("$expMovingAvg requires an explicit 'sortBy'"));
    }
    call.refuse_window()?;
    let wrong = || {
        let message = "$expMovingAvg sub object must have exactly two fields: An 'input' field, and either an 'N' field \
                       or an 'alpha' field";
        Error::failed_to_parse(message)
    };
    let ValueRef::Document(spec) = call.argument else { return Err(wrong()) };
    let (Some(input), 2) = (spec.get("input"), spec.iter().count()) else { return Err(wrong()) };
    let alpha = match (spec.get("N"), spec.get("alpha")) {
        (Some(count), None) => {
            let count = number::exact_i64(count).filter(|count| *count > 0).ok_or_else(|| {
                let found = text::shell(count);
                Error::failed_to_parse(format!("'N' field must be an integer greater than 0, but found {found}"))
            })?;
            2.0 / (count as f64 + 1.0)
        }
        (None, Some(alpha)) => number::to_f64(alpha).filter(|alpha| *alpha > 0.0 && *alpha < 1.0).ok_or_else(|| {
            let found = text::shell(alpha);
            Error::failed_to_parse(format!("'alpha' must be between 0 and 1 (exclusive), found {found}"))
        })?,
        _ => return Err(wrong()),
    };
    Ok(Arc::new(ExpMovingAvg { input: Expression::parse(input, call.context)?, alpha }))
}

impl WindowFunction for ExpMovingAvg {
    fn start(&self) -> Box<dyn Column> {
        Box::new(Moving { function: self.clone(), average: None })
    }

    fn look_back(&self) -> Option<usize> {
        Some(0)
    }
}

struct Moving {
    function: ExpMovingAvg,
    average: Option<Number>,
}

impl Column for Moving {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let value = match rows.get(at) {
            Some(doc) => self.function.input.eval(doc.as_doc())?,
            None => None,
        };
        if let Some(number) = value.as_ref().and_then(|value| Number::of(value.as_ref())) {
            let weight = |weight: f64| Number::Double(weight);
            let alpha = self.function.alpha;
            self.average = Some(match self.average {
                None => number,
                Some(average) => number * weight(alpha) + average * weight(1.0 - alpha),
            });
        }
        Ok(self.average.map_or(Value::Null, Number::to_value))
    }
}
