//! `$replaceAll`: a text with every occurrence of another replaced.
//!
//! ```text
//! { $replaceAll: { input: "aXbX", find: "X", replacement: "-" } } => "a-b-"
//! { $replaceAll: { input: "a", find: null, replacement: "-" } } => null
//! { $replaceAll: { input: "a", find: 1, replacement: "-" } } => error 51745: $replaceAll requires that 'find' be a string, found: 1
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;
use crate::expression::replace::parse_replace;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_replace(name, value, parser, |text, find, replacement| text.replace(find, replacement))
}
