//! `$multiply`: the product of numbers.
//!
//! ```text
//! { $multiply: [2, 3] } => 6
//! { $multiply: [2, 1.5, 2] } => 6.0
//! { $multiply: [2147483647, 2] } => Long(4294967294)
//! { $multiply: [Decimal("1.5"), 2] } => Decimal("3.0")
//! { $multiply: [2, "$a"] } => null
//! { $multiply: [] } => 1
//! { $multiply: [2, "x"] } => error 14: $multiply only supports numeric types, not string
//! ```

use arbor_bson::Number;

use crate::expression::Evaluated;
use crate::{Error, Result};

pub(super) fn eval(factors: Vec<Evaluated>) -> Result<Evaluated> {
    let mut product = Number::Int32(1);
    for factor in &factors {
        if factor.is_nullish() {
            return Ok(Evaluated::null());
        }
        match factor.get().and_then(Number::of) {
            Some(number) => product = product * number,
            None => {
                let message = format!("$multiply only supports numeric types, not {}", factor.type_name());
                return Err(Error::type_mismatch(message));
            }
        }
    }
    Ok(product.to_value().into())
}
