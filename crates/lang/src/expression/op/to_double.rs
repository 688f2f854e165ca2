//! `$toDouble`: a double.
//!
//! ```text
//! { $toDouble: 5 } => 5.0
//! { $toDouble: "1e3" } => 1000.0
//! { $toDouble: false } => 0.0
//! { $toDouble: "$a" } => null
//! ```

use arbor_bson::Type;

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::convert_or_null;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    convert_or_null(value, Type::Double)
}
