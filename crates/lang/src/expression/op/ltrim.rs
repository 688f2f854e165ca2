//! `$ltrim`: a text without white space (or the given characters) at its start.
//!
//! ```text
//! { $ltrim: { input: "  a " } } => "a "
//! { $ltrim: { input: "xax", chars: "x" } } => "ax"
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;
use crate::expression::trim::{Ends, parse_ends};

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_ends(name, value, parser, Ends::Start)
}
