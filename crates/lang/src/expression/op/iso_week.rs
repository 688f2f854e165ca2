//! `$isoWeek`: the ISO 8601 week, in a time zone when one is given.
//!
//! ```text
//! { $isoWeek: Date(1522169931538) } => 13
//! { $isoWeek: Date("2016-01-01T00:00:00Z") } => 53
//! ```

use arbor_bson::{Value, ValueRef};

use crate::Result;
use crate::expression::Expression;
use crate::expression::date_input::parse_part;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_part(name, value, parser, |at| Value::Int32(i32::from(at.date().iso_week_date().week())))
}
