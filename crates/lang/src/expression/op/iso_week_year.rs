//! `$isoWeekYear`: the ISO 8601 year, to which the week belongs, in a time zone when one is given.
//!
//! ```text
//! { $isoWeekYear: Date("2016-01-01T00:00:00Z") } => Long(2015)
//! ```

use arbor_bson::{Value, ValueRef};

use crate::Result;
use crate::expression::Expression;
use crate::expression::date_input::parse_part;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_part(name, value, parser, |at| Value::Int64(at.iso_year()))
}
