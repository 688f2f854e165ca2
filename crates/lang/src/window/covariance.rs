//! `$covariancePop`, `$covarianceSamp`: `[x, y]`; the covariance of two numbers over a window. Rows where one of them is no
//! number do not count.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, Number, Value, ValueRef};

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
            mean_x: 0.0,
            mean_y: 0.0,
            products: 0.0,
        })
    }

    fn add(&self, state: &mut dyn State, at: usize) -> Result<()> {
        let doc = self.rows.get(at).map_or(Doc::empty(), |doc| doc.as_doc());
        state.add(self.function.pair.eval_in(&Environment::new(doc))?, doc)
    }
}

#[derive(Debug)]
struct CovarianceState {
    estimator: Estimator,
    count: f64,
    mean_x: f64,
    mean_y: f64,
    /// Sum of the products of both distances from their means.
    products: f64,
}

impl CovarianceState {
    fn add_part(&mut self, count: f64, mean_x: f64, mean_y: f64, products: f64) {
        let all = self.count + count;
        if all == 0.0 {
            return;
        }
        let (x, y) = (mean_x - self.mean_x, mean_y - self.mean_y);
        self.products += products + x * y * self.count * count / all;
        self.mean_x += x * count / all;
        self.mean_y += y * count / all;
        self.count = all;
    }
}

impl State for CovarianceState {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if let Some(ValueRef::Array(pair)) = value.get()
            && let (Some(x), Some(y), 2) =
                (pair.get(0).and_then(Number::of), pair.get(1).and_then(Number::of), pair.len())
        {
            self.add_part(1.0, x.to_f64(), y.to_f64(), 0.0);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        let divisor = if self.estimator == Estimator::Population { self.count } else { self.count - 1.0 };
        if divisor <= 0.0 { Value::Null } else { Value::Double(self.products / divisor) }
    }

    fn partial(&self) -> Value {
        let parts = [self.count, self.mean_x, self.mean_y, self.products];
        Value::Array(parts.into_iter().collect::<ArrayBuf>())
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        let ValueRef::Array(parts) = partial else { return Ok(()) };
        let part = |at| parts.get(at).and_then(Number::of).map_or(0.0, Number::to_f64);
        self.add_part(part(0), part(1), part(2), part(3));
        Ok(())
    }
}
