//! `$hour`: the hour, in a time zone when one is given.
//!
//! ```text
//! { $hour: Date(1522169931538) } => 16
//! { $hour: { date: Date(1522169931538), timezone: "+0330" } } => 20
//! { $hour: { date: Date(1522169931538), timezone: "America/New_York" } } => 12
//! ```

use arbor_bson::{Value, ValueRef};

use crate::Result;
use crate::expression::Expression;
use crate::expression::date_input::parse_part;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_part(name, value, parser, |at| Value::Int32(i32::from(at.hour())))
}
