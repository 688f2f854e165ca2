//! `$toDecimal`: a decimal128.
//!
//! ```text
//! { $toDecimal: 5 } => Decimal("5")
//! { $toDecimal: "1.50" } => Decimal("1.50")
//! { $toDecimal: "$a" } => null
//! ```

use arbor_bson::Type;

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::convert_or_null;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    convert_or_null(value, Type::Decimal128)
}
