//! `$toBool`: false for zero and false, null for null, true for everything else.
//!
//! ```text
//! { $toBool: 0 } => false
//! { $toBool: "false" } => true
//! { $toBool: Date(0) } => true
//! { $toBool: "$a" } => null
//! ```

use arbor_bson::Type;

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::convert_or_null;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    convert_or_null(value, Type::Bool)
}
