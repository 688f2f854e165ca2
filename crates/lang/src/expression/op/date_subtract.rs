//! `$dateSubtract`: a date some units earlier, see `$dateAdd`.
//!
//! ```text
//! { $dateSubtract: { startDate: Date(7200000), unit: "hour", amount: 2 } } => Date(0)
//! { $dateSubtract: { startDate: Date("2020-03-31T00:00:00Z"), unit: "month", amount: 1 } } => Date("2020-02-29T00:00:00Z")
//! { $dateSubtract: { startDate: Date(0), unit: "day", amount: "$a" } } => null
//! ```

use arbor_bson::ValueRef;

use super::date_add::parse_signed;
use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_signed(name, value, parser, -1)
}
