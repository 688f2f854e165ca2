//! `$avg`: the mean of the numbers, a double or a decimal; null without any.

use arbor_bson::{ArrayBuf, Decimal128, Doc, Number, Value, ValueRef};

use super::{State, Sum, elements};
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

    /// The sum's partial form and the count.
    fn partial(&self) -> Value {
        let mut parts = ArrayBuf::new();
        parts.push(&self.sum.partial()).push(self.count);
        Value::Array(parts)
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        for part in elements(partial) {
            match part {
                ValueRef::Int64(count) => self.count += count,
                sum => self.sum.absorb(sum)?,
            }
        }
        Ok(())
    }
}
