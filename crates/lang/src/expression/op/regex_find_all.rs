//! `$regexFindAll`: all matches of a regular expression in a text, see `$regexFind`.
//!
//! ```text
//! { $regexFindAll: { input: "a1b2", regex: "[a-z](\\d)" } } => [{ match: "a1", idx: 0, captures: ["1"] }, { match: "b2", idx: 2, captures: ["2"] }]
//! { $regexFindAll: { input: "ab", regex: "" } } => [{ match: "", idx: 0, captures: [] }, { match: "", idx: 1, captures: [] }]
//! { $regexFindAll: { input: "$a", regex: "x" } } => []
//! ```

use arbor_bson::{ArrayBuf, ValueRef};

use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;
use crate::expression::regex_input::{found_document, parse_regex};
use crate::stop::{check_growth, tick_for};

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    parse_regex(name, value, parser, |found| {
        let mut all = ArrayBuf::new();
        let Some((regex, text)) = found else { return Ok(all.into()) };
        let (mut at, mut counted) = (0, Counted::default());
        while at < text.len() || (at == 0 && text.is_empty()) {
            let Some(capture) = regex.captures_at(text, at)? else { break };
            if capture.start >= text.len() && !text.is_empty() {
                break;
            }
            all.push(&found_document(text, &capture, counted.up_to(text, capture.start)));
            tick_for(capture.end - at)?;
            check_growth("$regexFindAll", all.as_array().as_bytes().len())?;
            let step = if capture.end > capture.start { 0 } else { next_char(text, capture.end) };
            at = capture.end + step;
        }
        Ok(all.into())
    })
}

/// The characters before a byte, counted from the last requested one.
#[derive(Default)]
struct Counted {
    bytes: usize,
    characters: usize,
}

impl Counted {
    /// Requires a byte that is not before the last one.
    fn up_to(&mut self, text: &str, byte: usize) -> usize {
        self.characters += text.get(self.bytes..byte).unwrap_or_default().chars().count();
        self.bytes = byte;
        self.characters
    }
}

/// Length of the character at a byte.
fn next_char(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}
