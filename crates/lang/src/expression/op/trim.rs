//! `$trim`: a text without white space (or the given characters) at both ends.
//!
//! ```text
//! { $trim: { input: "  a b  " } } => "a b"
//! { $trim: { input: "xyax", chars: "xy" } } => "a"
//! { $trim: { input: "$a" } } => null
//! { $trim: { input: 1 } } => error 50699: $trim requires its input to be a string, got 1 (of type int) instead.
//! { $trim: { input: "a", chars: 1 } } => error 50700:  $trim requires 'chars' to be a string, got 1 (of type int) instead.
//! { $trim: {} } => error 50695: $trim requires an 'input' argument
//! { $trim: { input: "a", x: 1 } } => error 50694: $trim found an unknown argument: x
//! { $trim: "a" } => error 50696: $trim only supports an object as an argument, found string
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;
use crate::expression::trim::{Ends, parse_ends};

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_ends(name, value, parser, Ends::Both)
}
