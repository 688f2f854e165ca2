//! `$stdDevPop`, `$stdDevSamp`: the standard deviation of the numbers (Welford's method), a double.

use arbor_bson::{ArrayBuf, Doc, Number, Value, ValueRef};

use super::{State, elements};
use crate::Result;
use crate::expression::Evaluated;

/// Estimator of the variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// The values are the whole population.
    Population,
    /// The values are a sample; at least two are needed.
    Sample,
}

#[derive(Debug)]
pub struct StdDev {
    estimator: Estimator,
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl StdDev {
    pub fn new(estimator: Estimator) -> StdDev {
        StdDev { estimator, count: 0, mean: 0.0, squares: 0.0 }
    }

    pub fn add_number(&mut self, number: Number) {
        let value = number.to_f64();
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    pub fn deviation(&self) -> Value {
        let divisor = match self.estimator {
            Estimator::Population => self.count,
            Estimator::Sample => self.count.saturating_sub(1),
        };
        if divisor == 0 {
            return Value::Null;
        }
        Value::Double((self.squares / divisor as f64).sqrt())
    }
}

impl State for StdDev {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if let Some(number) = value.get().and_then(Number::of) {
            self.add_number(number);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.deviation()
    }

    /// `[count, mean, squares]`.
    fn partial(&self) -> Value {
        Value::Array([self.count as f64, self.mean, self.squares].into_iter().collect::<ArrayBuf>())
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        let parts: Vec<f64> = elements(partial).filter_map(Number::of).map(Number::to_f64).collect();
        if let [count, mean, squares] = parts.as_slice()
            && *count > 0.0
        {
            if self.count == 0 {
                (self.count, self.mean, self.squares) = (*count as u64, *mean, *squares);
                return Ok(());
            }
            let (own, distance) = (self.count as f64, mean - self.mean);
            let all = own + count;
            self.squares += squares + distance * distance * own * count / all;
            self.mean += distance * count / all;
            self.count += *count as u64;
        }
        Ok(())
    }
}
