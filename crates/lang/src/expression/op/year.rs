//! `$year`: the year, in a time zone when one is given.
//!
//! ```text
//! { $year: Date(1522169931538) } => 2018
//! { $year: { date: "$d", timezone: "Asia/Tokyo" } } on { d: Date("2018-12-31T20:00:00Z") } => 2019
//! { $year: "$a" } => null
//! { $year: "x" } => error 16006: can't convert from BSON type string to Date
//! { $year: { date: Date(0), timezone: "x/y" } } => error 40485: unrecognized time zone identifier: "x/y"
//! { $year: { zone: 1 } } => error 40535: unrecognized option to $year: "zone"
//! { $year: { date: Date(0), timezone: 5 } } => error 40517: timezone must evaluate to a string, found int
//! ```

use arbor_bson::{Value, ValueRef};

use crate::Result;
use crate::expression::Expression;
use crate::expression::date_input::parse_part;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_part(name, value, parser, |at| Value::Int32(at.year() as i32))
}
