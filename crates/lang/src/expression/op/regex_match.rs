//! `$regexMatch`: whether a regular expression finds something in a text.
//!
//! ```text
//! { $regexMatch: { input: "Hello", regex: "^h", options: "i" } } => true
//! { $regexMatch: { input: "Hello", regex: /^h/ } } => false
//! { $regexMatch: { input: "$a", regex: "x" } } => false
//! { $regexMatch: { input: 1, regex: "x" } } => error 51104: $regexMatch needs 'input' to be of type string
//! { $regexMatch: { input: "a", regex: 1 } } => error 51105: $regexMatch needs 'regex' to be of type string or regex
//! { $regexMatch: { input: "a", regex: "(" } } => error 51111: Invalid Regex in $regexMatch: Parsing error at position 1: Opening parenthesis without closing parenthesis
//! { $regexMatch: { input: "a", regex: /a/i, options: "m" } } => error 51107: $regexMatch: found regex option(s) specified in both 'regex' and 'option' fields
//! { $regexMatch: { regex: "a" } } => error 31022: $regexMatch requires 'input' parameter
//! { $regexMatch: { input: "a", regex: "a", x: 1 } } => error 31024: $regexMatch found an unknown argument: x
//! { $regexMatch: 1 } => error 51103: $regexMatch expects an object of named arguments but found: int
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;
use crate::expression::regex_input::parse_regex;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_regex(name, value, parser, |found| match found {
        None => Ok(false.into()),
        Some((regex, text)) => Ok(regex.is_match(text)?.into()),
    })
}
