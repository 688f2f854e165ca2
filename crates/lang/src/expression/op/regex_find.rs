//! `$regexFind`: the first match of a regular expression in a text: what, where (in code points), and its groups.
//!
//! ```text
//! { $regexFind: { input: "été 12", regex: "(\\d)(x)?" } } => { match: "1", idx: 4, captures: ["1", null] }
//! { $regexFind: { input: "abc", regex: "z" } } => null
//! { $regexFind: { input: "$a", regex: "z" } } => null
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::parse::Parser;
use crate::expression::regex_input::{found_document, parse_regex};
use crate::expression::{Evaluated, Expression};

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_regex(name, value, parser, |found| {
        let Some((regex, text)) = found else { return Ok(Evaluated::null()) };
        let Some(capture) = regex.captures_at(text, 0)? else { return Ok(Evaluated::null()) };
        let before = text.get(..capture.start).unwrap_or_default().chars().count();
        Ok(found_document(text, &capture, before).into())
    })
}
