//! `$atan2`: the angle in radians of the point (x, y), given as [y, x].
//!
//! ```text
//! { $atan2: [0, 1] } => 0.0
//! { $atan2: ["$a", 1] } => null
//! { $atan2: ["x", 1] } => error 51044: $atan2 only supports numeric types, not string and int
//! ```

use arbor_bson::Number;

use crate::expression::Evaluated;
use crate::expression::real::of_two;
use crate::{Error, Result};

pub(super) fn eval<'a>(y: Evaluated<'a>, x: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if y.is_nullish() || x.is_nullish() {
        return Ok(Evaluated::null());
    }
    match (y.get().and_then(Number::of), x.get().and_then(Number::of)) {
        (Some(y), Some(x)) => Ok(angle(y, x).to_value().into()),
        _ => {
            let message = format!("$atan2 only supports numeric types, not {} and {}", y.type_name(), x.type_name());
            Err(Error::location(51044, message))
        }
    }
}

fn angle(y: Number, x: Number) -> Number {
    match (y, x) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Number::Decimal(of_two((y.to_decimal(), x.to_decimal()), f64::atan2, |math, y, x| math.atan2(y, x, None)))
        }
        _ => Number::Double(y.to_f64().atan2(x.to_f64())),
    }
}
