//! Shared code of `$trim`, `$ltrim` and `$rtrim`.

use std::sync::Arc;

use arbor_bson::ValueRef;
use hashbrown::HashSet;

use super::parse::Parser;
use super::{Environment, Evaluated, Expression, Special};
use crate::{Error, Result, stop, text};

/// Characters that MongoDB trims by default: NUL, white space of ASCII, and the spaces of Unicode.
const WHITE_SPACE: &[char] = &[
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200a}',
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Both,
    Start,
    End,
}

#[derive(Debug)]
struct Trim {
    operator: &'static str,
    input: Expression,
    chars: Option<Expression>,
    ends: Ends,
}

pub(super) fn parse_ends(
    operator: &'static str,
    value: ValueRef,
    parser: &mut Parser,
    ends: Ends,
) -> Result<Expression> {
    let ValueRef::Document(doc) = value else {
        let found = text::type_name(Some(value));
        return Err(Error::location(
            50696,
            format!("{operator} only supports an object as an argument, found {found}"),
        ));
    };
    let (mut input, mut chars) = (None, None);
    for (name, value) in doc {
        match name {
            "input" => input = Some(parser.expression(value)?),
            "chars" => chars = Some(parser.expression(value)?),
            _ => return Err(Error::location(50694, format!("{operator} found an unknown argument: {name}"))),
        }
    }
    let input = input.ok_or_else(|| Error::location(50695, format!("{operator} requires an 'input' argument")))?;
    Ok(Expression::Special(Arc::new(Trim { operator, input, chars, ends })))
}

/// Characters in ascending order, each once.
struct Chars(Vec<char>);

impl Chars {
    /// As many are searched one by one.
    const FEW: usize = 32;

    fn of(text: &str) -> Result<Chars> {
        let mut all: HashSet<char> = HashSet::new();
        for c in text.chars() {
            stop::tick()?;
            all.insert(c);
        }
        let mut all: Vec<char> = all.into_iter().collect();
        stop::sort_unstable_by(&mut all, char::cmp)?;
        Ok(Chars(all))
    }

    fn has(&self, c: char) -> bool {
        if self.0.len() <= Chars::FEW { self.0.contains(&c) } else { self.0.binary_search(&c).is_ok() }
    }
}

impl Special for Trim {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let operator = self.operator;
        let input = self.input.eval_in(environment)?;
        if input.is_nullish() {
            return Ok(Evaluated::null());
        }
        let wrong = |value: &Evaluated| format!("{} (of type {})", text::shell(value.or_null()), value.type_name());
        let Some(ValueRef::String(text)) = input.get() else {
            let message = format!("{operator} requires its input to be a string, got {} instead.", wrong(&input));
            return Err(Error::location(50699, message));
        };
        let chars = match &self.chars {
            None => Chars(WHITE_SPACE.to_vec()),
            Some(chars) => {
                let chars = chars.eval_in(environment)?;
                match chars.get() {
                    _ if chars.is_nullish() => return Ok(Evaluated::null()),
                    Some(ValueRef::String(chars)) => Chars::of(chars)?,
                    _ => {
                        let wrong = wrong(&chars);
                        let message = format!(" {operator} requires 'chars' to be a string, got {wrong} instead.");
                        return Err(Error::location(50700, message));
                    }
                }
            }
        };
        let is_trimmed = |c: char| stop::tick().is_ok() && chars.has(c);
        let trimmed = match self.ends {
            Ends::Both => text.trim_matches(is_trimmed),
            Ends::Start => text.trim_start_matches(is_trimmed),
            Ends::End => text.trim_end_matches(is_trimmed),
        };
        stop::ended()?;
        Ok(trimmed.into())
    }

    fn parts(&self) -> Vec<&Expression> {
        [&self.input].into_iter().chain(&self.chars).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each character of the input was compared with each of these, one by one.
    #[test]
    fn many_characters_are_searched_by_halves() {
        let many: String = ('\u{4e00}'..'\u{9fff}').cycle().take(1_000_000).collect();
        let chars = Chars::of(&many).unwrap();
        assert_eq!(chars.0.len(), 0x9fff - 0x4e00);
        assert!(chars.has('\u{4e00}') && chars.has('\u{9ffe}') && !chars.has('\u{9fff}') && !chars.has('a'));
        assert!(Chars::of("ba").unwrap().has('a') && !Chars(WHITE_SPACE.to_vec()).has('a'));
    }
}
