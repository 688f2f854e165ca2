//! `$log`: the logarithm of a number to a base.
//!
//! ```text
//! { $log: [100, 10] } => 2.0
//! { $log: ["$a", 10] } => null
//! { $log: ["x", 10] } => error 28756: $log's argument must be numeric, not string
//! { $log: [1, "x"] } => error 28757: $log's base must be numeric, not string
//! { $log: [0, 10] } => error 28758: $log's argument must be a positive number, but is 0
//! { $log: [1, 1] } => error 28759: $log's base must be a positive number not equal to 1, but is 1
//! ```

use arbor_bson::Number;

use super::ln;
use crate::expression::Evaluated;
use crate::expression::arithmetic::is_zero_or_less;
use crate::{Error, Result};

pub(super) fn eval<'a>(value: Evaluated<'a>, base: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if value.is_nullish() || base.is_nullish() {
        return Ok(Evaluated::null());
    }
    let not_a_number = |what: &str, code, found: &Evaluated| {
        Error::location(code, format!("$log's {what} must be numeric, not {}", found.type_name()))
    };
    let number = value.get().and_then(Number::of).ok_or_else(|| not_a_number("argument", 28756, &value))?;
    let radix = base.get().and_then(Number::of).ok_or_else(|| not_a_number("base", 28757, &base))?;
    if is_zero_or_less(number) {
        let message = format!("$log's argument must be a positive number, but is {}", number.as_value());
        return Err(Error::location(28758, message));
    }
    if is_zero_or_less(radix) || radix.to_f64() == 1.0 {
        let message = format!("$log's base must be a positive number not equal to 1, but is {}", radix.as_value());
        return Err(Error::location(28759, message));
    }
    Ok(logarithm_of(number, radix).to_value().into())
}

fn logarithm_of(number: Number, radix: Number) -> Number {
    if let (Number::Decimal(_), _) | (_, Number::Decimal(_)) = (number, radix) {
        // COMPAT: the quotient of two rounded logarithms, as in MongoDB
        let natural = |number: Number| ln::FUNCTION.of(Number::Decimal(number.to_decimal())).to_decimal();
        let logarithm = natural(number);
        return Number::Decimal(if logarithm.is_zero() { logarithm } else { logarithm / natural(radix) });
    }
    Number::Double(match radix.to_f64() {
        10.0 => number.to_f64().log10(),
        2.0 => number.to_f64().log2(),
        radix => number.to_f64().ln() / radix.ln(),
    })
}
