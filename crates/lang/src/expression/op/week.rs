//! `$week`: the week of the year; weeks begin on Sunday, days before the first are in week 0, in a time zone when one is given.
//!
//! ```text
//! { $week: Date(1522169931538) } => 12
//! { $week: Date("2016-01-01T00:00:00Z") } => 0
//! ```

use arbor_bson::{Value, ValueRef};

use crate::Result;
use crate::expression::Expression;
use crate::expression::date_format;
use crate::expression::date_input::parse_part;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_part(name, value, parser, |at| Value::Int32(date_format::week(at)))
}
