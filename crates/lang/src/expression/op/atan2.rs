//! `$atan2`: the angle in radians of the point (x, y), given as [y, x].
//!
//! ```text
//! { $atan2: [0, 1] } => 0.0
//! { $atan2: ["$a", 1] } => null
//! { $atan2: ["x", 1] } => error 51044: $atan2 only supports numeric types, not string and int
//! ```

use arbor_bson::Number;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub fn eval<'a>(y: Evaluated<'a>, x: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if y.is_nullish() || x.is_nullish() {
        return Ok(Evaluated::null());
    }
    match (y.get().and_then(Number::of), x.get().and_then(Number::of)) {
        (Some(y), Some(x)) => Ok(y.to_f64().atan2(x.to_f64()).into()),
        _ => {
            let message = format!("$atan2 only supports numeric types, not {} and {}", y.type_name(), x.type_name());
            Err(Error::location(51044, message))
        }
    }
}
