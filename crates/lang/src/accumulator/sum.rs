//! `$sum`: the sum of the numbers; other values do not count.
//!
//! Whole numbers are summed exactly, doubles with compensation, so the order of the documents hardly matters.

use arbor_bson::{ArrayBuf, Decimal128, Doc, Number, Value, ValueRef};

use super::{State, elements};
use crate::Result;
use crate::expression::Evaluated;

#[derive(Debug, Default)]
pub struct Sum {
    whole: i128,
    double: f64,
    /// Rounding error of `double` (Neumaier).
    lost: f64,
    decimal: Option<Decimal128>,
    widest: Widest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Widest {
    #[default]
    Int32,
    Int64,
    Double,
}

impl Sum {
    pub fn add_number(&mut self, number: Number) {
        match number {
            Number::Int32(v) => self.whole += i128::from(v),
            Number::Int64(v) => {
                self.whole += i128::from(v);
                self.widest = self.widest.max(Widest::Int64);
            }
            Number::Double(v) => {
                self.widest = Widest::Double;
                self.add_double(v);
            }
            Number::Decimal(v) => self.decimal = Some(self.decimal.map_or(v, |sum| sum + v)),
        }
    }

    fn add_double(&mut self, v: f64) {
        let sum = self.double + v;
        let lost = if self.double.abs() >= v.abs() { (self.double - sum) + v } else { (v - sum) + self.double };
        self.lost += if lost.is_finite() { lost } else { 0.0 };
        self.double = sum;
    }

    pub fn total(&self) -> Number {
        if let Some(decimal) = self.decimal {
            let whole: Decimal128 = self.whole.to_string().parse().unwrap_or(Decimal128::ZERO);
            if self.widest != Widest::Double {
                return Number::Decimal(decimal + whole);
            }
            // a decimal has room for the digits that a double has lost
            let double = Decimal128::from_f64_wide(self.double) + Decimal128::from_f64_wide(self.lost);
            return Number::Decimal(decimal + whole + double);
        }
        let double = self.double + self.lost;
        match (self.widest, i32::try_from(self.whole), i64::try_from(self.whole)) {
            (Widest::Double, ..) => Number::Double(self.whole as f64 + double),
            (Widest::Int32, Ok(v), _) => Number::Int32(v),
            (_, _, Ok(v)) => Number::Int64(v),
            _ => Number::Double(self.whole as f64),
        }
    }
}

impl State for Sum {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if let Some(number) = value.get().and_then(Number::of) {
            self.add_number(number);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.total().to_value()
    }

    /// `[high, low, double, lost, widest, decimal]`: the halves of the whole part, the others as they are.
    fn partial(&self) -> Value {
        let mut parts = ArrayBuf::new();
        parts.push((self.whole >> 64) as i64).push(self.whole as u64 as i64).push(self.double).push(self.lost);
        parts.push(self.widest as i32);
        if let Some(decimal) = self.decimal {
            parts.push(ValueRef::Decimal128(decimal));
        }
        Value::Array(parts)
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        let parts: Vec<Number> = elements(partial).filter_map(Number::of).collect();
        let [Number::Int64(high), Number::Int64(low), Number::Double(double), Number::Double(lost), widest, rest @ ..] =
            parts.as_slice()
        else {
            return Ok(());
        };
        self.whole += (i128::from(*high) << 64) | i128::from(*low as u64);
        let widest = match widest {
            Number::Int32(0) => Widest::Int32,
            Number::Int32(1) => Widest::Int64,
            _ => Widest::Double,
        };
        self.widest = self.widest.max(widest);
        if widest == Widest::Double {
            self.add_double(*double);
            self.lost += lost;
        }
        rest.iter().for_each(|decimal| self.add_number(*decimal));
        Ok(())
    }
}
