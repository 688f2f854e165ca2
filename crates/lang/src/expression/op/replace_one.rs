//! `$replaceOne`: a text with the first occurrence of another replaced.
//!
//! ```text
//! { $replaceOne: { input: "aXbX", find: "X", replacement: "-" } } => "a-bX"
//! { $replaceOne: { input: "$a", find: "X", replacement: "-" } } => null
//! { $replaceOne: { input: 1, find: "X", replacement: "-" } } => error 51746: $replaceOne requires that 'input' be a string, found: 1
//! { $replaceOne: { input: "a", find: "X" } } => error 51747: $replaceOne requires 'replacement' to be specified
//! { $replaceOne: { x: 1 } } => error 51750: $replaceOne found an unknown argument: x
//! { $replaceOne: 1 } => error 51751: $replaceOne requires an object as an argument, found: int
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;
use crate::expression::replace::parse_replace;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_replace(name, value, parser, |text, find, replacement| text.replacen(find, replacement, 1))
}
