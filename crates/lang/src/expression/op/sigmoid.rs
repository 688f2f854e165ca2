//! `$sigmoid`: 1 / (1 + e^-x).
//!
//! ```text
//! { $sigmoid: 0 } => 0.5
//! { $sigmoid: Decimal("1") } => Decimal("0.7310585786300048792511592418218362")
//! { $sigmoid: "$a" } => null
//! { $sigmoid: "x" } => error 14: $sigmoid only supports numeric types, not string
//! ```

use arbor_bson::{Decimal128, Number, ValueRef};

use super::exp;
use crate::expression::form::Form;
use crate::expression::parse::Parser;
use crate::expression::{Evaluated, Expression};
use crate::{Error, Result};

/// The argument is no list, so that an array is refused as a value.
pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let argument = parser.expression(value)?;
    Ok(Form::call(name, eval, argument, parser))
}

fn eval(value: Evaluated) -> Result<Evaluated> {
    if value.is_nullish() {
        return Ok(Evaluated::null());
    }
    let Some(number) = value.get().and_then(Number::of) else {
        let message = format!("$sigmoid only supports numeric types, not {}", value.type_name());
        return Err(Error::type_mismatch(message));
    };
    let result = match number {
        Number::Decimal(x) => {
            let (zero, one) = (Decimal128::from(0i64), Decimal128::from(1i64));
            let power = exp::FUNCTION.of(Number::Decimal(zero - x)).to_decimal();
            Number::Decimal(one / (one + power))
        }
        number => Number::Double(1.0 / (1.0 + (-number.to_f64()).exp())),
    };
    Ok(result.to_value().into())
}
