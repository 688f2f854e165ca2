//! Numbers of the four types as one, with MongoDB's promotion.
//!
//! A result has the wider type of its operands: Int32, Int64, Double, Decimal128. Whole numbers that do not fit Int32
//! become Int64. Beyond Int64 the callers differ, so both are offered: `$inc` and `$mul` of an update refuse
//! (`checked_*` gives none), expressions continue as Double (`+`, `-`, `*`).

use std::ops::{Add, Mul, Sub};

use crate::{Decimal128, Value, ValueRef};

#[derive(Clone, Copy, Debug)]
pub enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal(Decimal128),
}

/// Two numbers brought to one type.
enum Pair {
    /// Both Int32: the result may be Int32.
    Short(i64, i64),
    Long(i64, i64),
    Double(f64, f64),
    Decimal(Decimal128, Decimal128),
}

impl Number {
    pub fn of(value: ValueRef<'_>) -> Option<Number> {
        match value {
            ValueRef::Int32(v) => Some(Number::Int32(v)),
            ValueRef::Int64(v) => Some(Number::Int64(v)),
            ValueRef::Double(v) => Some(Number::Double(v)),
            ValueRef::Decimal128(v) => Some(Number::Decimal(v)),
            _ => None,
        }
    }

    pub fn as_value(self) -> ValueRef<'static> {
        match self {
            Number::Int32(v) => ValueRef::Int32(v),
            Number::Int64(v) => ValueRef::Int64(v),
            Number::Double(v) => ValueRef::Double(v),
            Number::Decimal(v) => ValueRef::Decimal128(v),
        }
    }

    pub fn to_value(self) -> Value {
        self.as_value().to_value()
    }

    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int32(v) => f64::from(v),
            Number::Int64(v) => v as f64,
            Number::Double(v) => v,
            Number::Decimal(v) => v.to_f64(),
        }
    }

    pub fn to_decimal(self) -> Decimal128 {
        match self {
            Number::Int32(v) => Decimal128::from(v),
            Number::Int64(v) => Decimal128::from(v),
            Number::Double(v) => Decimal128::from_f64(v),
            Number::Decimal(v) => v,
        }
    }

    /// The int64 of exactly this value.
    pub fn to_i64_exact(self) -> Option<i64> {
        match self {
            Number::Int32(v) => Some(i64::from(v)),
            Number::Int64(v) => Some(v),
            Number::Double(v) => whole_i64(v),
            Number::Decimal(v) => v.to_i64_exact(),
        }
    }

    /// Cut towards zero; none for what is not finite or does not fit.
    pub fn to_i64_truncated(self) -> Option<i64> {
        match self {
            Number::Double(v) => whole_i64(v.trunc()),
            Number::Decimal(v) => v.to_i64_truncated(),
            whole => whole.to_i64_exact(),
        }
    }

    pub fn is_zero(self) -> bool {
        match self {
            Number::Int32(v) => v == 0,
            Number::Int64(v) => v == 0,
            Number::Double(v) => v == 0.0,
            Number::Decimal(v) => v.is_zero(),
        }
    }

    pub fn is_nan(self) -> bool {
        match self {
            Number::Double(v) => v.is_nan(),
            Number::Decimal(v) => v.is_nan(),
            _ => false,
        }
    }

    /// None when a whole result leaves Int64.
    pub fn checked_add(self, other: Number) -> Option<Number> {
        self.combine(other, i64::checked_add, |a, b| a + b, |a, b| a + b)
    }

    pub fn checked_subtract(self, other: Number) -> Option<Number> {
        self.combine(other, i64::checked_sub, |a, b| a - b, |a, b| a - b)
    }

    pub fn checked_multiply(self, other: Number) -> Option<Number> {
        self.combine(other, i64::checked_mul, |a, b| a * b, |a, b| a * b)
    }

    fn combine(
        self,
        other: Number,
        whole: fn(i64, i64) -> Option<i64>,
        double: fn(f64, f64) -> f64,
        decimal: fn(Decimal128, Decimal128) -> Decimal128,
    ) -> Option<Number> {
        Some(match self.pair(other) {
            Pair::Short(a, b) => {
                let result = whole(a, b)?;
                i32::try_from(result).map_or(Number::Int64(result), Number::Int32)
            }
            Pair::Long(a, b) => Number::Int64(whole(a, b)?),
            Pair::Double(a, b) => Number::Double(double(a, b)),
            Pair::Decimal(a, b) => Number::Decimal(decimal(a, b)),
        })
    }

    fn pair(self, other: Number) -> Pair {
        match (self, other) {
            (Number::Decimal(_), _) | (_, Number::Decimal(_)) => Pair::Decimal(self.to_decimal(), other.to_decimal()),
            (Number::Double(_), _) | (_, Number::Double(_)) => Pair::Double(self.to_f64(), other.to_f64()),
            (Number::Int32(a), Number::Int32(b)) => Pair::Short(i64::from(a), i64::from(b)),
            (Number::Int32(a), Number::Int64(b)) => Pair::Long(i64::from(a), b),
            (Number::Int64(a), Number::Int32(b)) => Pair::Long(a, i64::from(b)),
            (Number::Int64(a), Number::Int64(b)) => Pair::Long(a, b),
        }
    }
}

/// A whole result beyond Int64 becomes a Double.
impl Add for Number {
    type Output = Number;

    fn add(self, other: Number) -> Number {
        self.checked_add(other).unwrap_or_else(|| Number::Double(self.to_f64() + other.to_f64()))
    }
}

impl Sub for Number {
    type Output = Number;

    fn sub(self, other: Number) -> Number {
        self.checked_subtract(other).unwrap_or_else(|| Number::Double(self.to_f64() - other.to_f64()))
    }
}

impl Mul for Number {
    type Output = Number;

    fn mul(self, other: Number) -> Number {
        self.checked_multiply(other).unwrap_or_else(|| Number::Double(self.to_f64() * other.to_f64()))
    }
}

fn whole_i64(v: f64) -> Option<i64> {
    let fits = v.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&v);
    fits.then_some(v as i64)
}

impl ValueRef<'_> {
    pub fn as_number(self) -> Option<Number> {
        Number::of(self)
    }

    pub fn is_number(self) -> bool {
        Number::of(self).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identical;

    #[test]
    fn promotion() {
        use Number::*;
        let decimal = |text: &str| Decimal(text.parse().unwrap());
        for (a, b, sum, product) in [
            (Int32(1), Int32(2), Some(Int32(3)), Some(Int32(2))),
            (Int32(i32::MAX), Int32(2), Some(Int64(1 << 31 | 1)), Some(Int64((i32::MAX as i64) * 2))),
            (Int32(1), Int64(2), Some(Int64(3)), Some(Int64(2))),
            (Int64(i64::MAX), Int32(2), None, None),
            (Int32(1), Double(0.5), Some(Double(1.5)), Some(Double(0.5))),
            (Int32(1), decimal("0.5"), Some(decimal("1.5")), Some(decimal("0.5"))),
            (Double(0.5), decimal("1"), Some(decimal("1.500000000000000")), Some(decimal("0.500000000000000"))),
        ] {
            for (result, expect) in [(a.checked_add(b), sum), (b.checked_multiply(a), product)] {
                let same = match (result, expect) {
                    (Some(a), Some(b)) => identical(a.as_value(), b.as_value()),
                    (a, b) => a.is_none() && b.is_none(),
                };
                assert!(same, "{a:?} {b:?}: {result:?}, expected {expect:?}");
            }
        }
        assert!(matches!(Int64(i64::MAX) + Int32(1), Double(v) if v == 9_223_372_036_854_775_808.0));
    }
}
