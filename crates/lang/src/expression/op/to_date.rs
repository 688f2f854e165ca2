//! `$toDate`: a date from milliseconds, a text, an ObjectId or a timestamp.
//!
//! ```text
//! { $toDate: Long(1000) } => Date(1000)
//! { $toDate: 1000.9 } => Date(1000)
//! { $toDate: "2018-03-27T16:58:51.538Z" } => Date(1522169931538)
//! { $toDate: "2018-03-27" } => Date(1522108800000)
//! { $toDate: "2018-03-27T16:58:51+02:00" } => Date(1522162731000)
//! { $toDate: ObjectId("000003e8ffffffffffffffff") } => Date(1000000)
//! { $toDate: "$a" } => null
//! { $toDate: 5 } => error 241: Unsupported conversion from int to date in $convert with no onError value
//! ```

use arbor_bson::Type;

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::convert_or_null;

pub(super) fn eval(value: Evaluated) -> Result<Evaluated> {
    convert_or_null(value, Type::DateTime)
}
