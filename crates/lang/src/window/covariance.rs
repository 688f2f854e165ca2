//! `$covariancePop`, `$covarianceSamp`: `[x, y]`; the covariance of two numbers over a window. Rows where one of them is no
//! number do not count. Infinities and NaN decide the result when two other rows count, and are left out before.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Decimal128, Doc, Number, Value, ValueRef};

use super::sliding::{Gather, Sliding};
use super::{Bounds, Call, Column, Rows, Window, WindowFunction};
use crate::accumulator::{Estimator, State};
use crate::expression::{Environment, Evaluated};
use crate::{Expression, Result};

#[derive(Clone, Debug)]
struct Covariance {
    pair: Expression,
    estimator: Estimator,
    bounds: Bounds,
}

pub(super) fn parse(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    let estimator = if call.name == "$covariancePop" { Estimator::Population } else { Estimator::Sample };
    Ok(Arc::new(Covariance {
        pair: Expression::parse(call.argument, call.context)?,
        estimator,
        bounds: call.bounds()?,
    }))
}

impl WindowFunction for Covariance {
    fn start(&self) -> Box<dyn Column> {
        Box::new(CovarianceColumn { function: self.clone(), window: self.bounds.start(), sliding: Sliding::default() })
    }

    fn look_back(&self) -> Option<usize> {
        self.bounds.rows_back().map(|(last, _)| last)
    }
}

struct CovarianceColumn {
    function: Covariance,
    window: Window,
    sliding: Sliding,
}

impl Column for CovarianceColumn {
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value> {
        let window = self.window.of(at, rows)?;
        let gather = OfPairs { function: &self.function, rows };
        self.sliding.over(window, self.function.bounds.lets_go(), &gather)
    }

    fn size_bytes(&self) -> usize {
        self.sliding.size_bytes()
    }
}

struct OfPairs<'r> {
    function: &'r Covariance,
    rows: &'r Rows,
}

impl Gather for OfPairs<'_> {
    fn start(&self) -> Box<dyn State> {
        Box::new(CovarianceState {
            estimator: self.function.estimator,
            count: 0.0,
            sum_x: ZERO,
            sum_y: ZERO,
            products: ZERO,
            not_finite: None,
        })
    }

    fn add(&self, state: &mut dyn State, at: usize) -> Result<()> {
        let doc = self.rows.get(at).map_or(Doc::empty(), |doc| doc.as_doc());
        state.add(self.function.pair.eval_in(&Environment::new(doc))?, doc)
    }
}

const ZERO: Number = Number::Int32(0);

/// The pairs so far. With a decimal among the numbers the result is one, whose digits are those of the sums in this order.
#[derive(Debug)]
struct CovarianceState {
    estimator: Estimator,
    /// Pairs of finite numbers.
    count: f64,
    sum_x: Number,
    sum_y: Number,
    /// Sum of the products of both distances from their means.
    products: Number,
    /// Sum of the infinities and NaNs, whose pairs do not count.
    not_finite: Option<Number>,
}

impl CovarianceState {
    /// Adds pairs of finite numbers: their count, their sums and their products.
    fn add_part(&mut self, count: f64, sum_x: Number, sum_y: Number, products: Number) {
        let before = self.count;
        let (old_x, old_y) = (self.sum_x, self.sum_y);
        self.count += count;
        self.sum_x = self.sum_x + sum_x;
        self.sum_y = self.sum_y + sum_y;
        if before == 0.0 {
            self.products = products;
        } else if count == 1.0 {
            let x = sum_x - over(old_x, before);
            let y = sum_y - over(self.sum_y, self.count);
            self.products = self.products + x * y;
        } else if count > 0.0 {
            let x = over(sum_x, count) - over(old_x, before);
            let y = over(sum_y, count) - over(old_y, before);
            let between = over(x * y * Number::Double(before * count), self.count);
            self.products = self.products + products + between;
        }
    }
}

fn over(number: Number, count: f64) -> Number {
    match number {
        Number::Decimal(v) => Number::Decimal(v / Decimal128::from_f64(count)),
        other => Number::Double(other.to_f64() / count),
    }
}

fn is_finite(number: Number) -> bool {
    match number {
        Number::Decimal(v) => !v.is_nan() && !v.is_infinite(),
        other => other.to_f64().is_finite(),
    }
}

impl State for CovarianceState {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if let Some(ValueRef::Array(pair)) = value.get()
            && let (Some(x), Some(y), 2) =
                (pair.get(0).and_then(Number::of), pair.get(1).and_then(Number::of), pair.len())
        {
            if is_finite(x) && is_finite(y) {
                self.add_part(1.0, x, y, ZERO);
            }
            for number in [x, y].into_iter().filter(|number| !is_finite(*number)) {
                self.not_finite = Some(self.not_finite.map_or(number, |sum| sum + number));
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        let divisor = if self.estimator == Estimator::Population { self.count } else { self.count - 1.0 };
        match self.not_finite {
            _ if divisor <= 0.0 => Value::Null,
            Some(sum) if self.count > 1.0 => sum.to_value(),
            _ => over(self.products, divisor).to_value(),
        }
    }

    fn partial(&self) -> Value {
        let parts = [
            Some(Number::Double(self.count)),
            Some(self.sum_x),
            Some(self.sum_y),
            Some(self.products),
            self.not_finite,
        ];
        Value::Array(parts.into_iter().flatten().map(Number::as_value).collect::<ArrayBuf>())
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        let ValueRef::Array(parts) = partial else { return Ok(()) };
        let part = |at| parts.get(at).and_then(Number::of);
        let (Some(count), Some(sum_x), Some(sum_y), Some(products)) = (part(0), part(1), part(2), part(3)) else {
            return Ok(());
        };
        if count.to_f64() > 0.0 {
            self.add_part(count.to_f64(), sum_x, sum_y, products);
        }
        if let Some(number) = part(4) {
            self.not_finite = Some(self.not_finite.map_or(number, |sum| sum + number));
        }
        Ok(())
    }
}
