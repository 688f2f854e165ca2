//! `$avg`: the mean of the numbers, a double or a decimal; null without any.

use arbor_bson::{Decimal128, Doc, Number, Value};

use super::{State, Sum};
use crate::Result;
use crate::expression::Evaluated;

#[derive(Debug, Default)]
pub struct Avg {
    sum: Sum,
    count: i64,
}

impl Avg {
    pub fn add_number(&mut self, number: Number) {
        self.sum.add_number(number);
        self.count += 1;
    }

    pub fn mean(&self) -> Value {
        match self.sum.total() {
            _ if self.count == 0 => Value::Null,
            Number::Decimal(sum) => Value::Decimal128(sum / Decimal128::from(self.count)),
            sum => Value::Double(sum.to_f64() / self.count as f64),
        }
    }
}

impl State for Avg {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if let Some(number) = value.get().and_then(Number::of) {
            self.add_number(number);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.mean()
    }
}
