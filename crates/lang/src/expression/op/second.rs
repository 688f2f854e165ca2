//! `$second`: the second, in a time zone when one is given.
//!
//! ```text
//! { $second: Date(1522169931538) } => 51
//! ```

use arbor_bson::{Value, ValueRef};

use crate::Result;
use crate::expression::Expression;
use crate::expression::date_input::parse_part;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_part(name, value, parser, |at| Value::Int32(i32::from(at.second())))
}
