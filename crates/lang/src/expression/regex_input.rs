//! Shared code of `$regexMatch`, `$regexFind` and `$regexFindAll`: `{ input, regex, options }`.
//!
//! A constant regular expression is compiled once, when it is parsed.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};

use super::parse::Parser;
use super::{Environment, Evaluated, Expression, Special};
use crate::matcher::Regex;
use crate::matcher::regex::Capture;
use crate::{Error, Result, text};

/// Computes the operator's result from the expression and the text; `None` when one of them is null.
type Answer = fn(Option<(&Regex, &str)>) -> Result<Evaluated<'static>>;

struct RegexInput {
    operator: &'static str,
    input: Expression,
    regex: Expression,
    options: Option<Expression>,
    compiled: Option<Regex>,
    answer: Answer,
}

pub(super) fn parse_regex(
    operator: &'static str,
    value: ValueRef,
    parser: &mut Parser,
    answer: Answer,
) -> Result<Expression> {
    let ValueRef::Document(doc) = value else {
        let found = text::type_name(Some(value));
        let message = format!("{operator} expects an object of named arguments but found: {found}");
        return Err(Error::location(51103, message));
    };
    let (mut input, mut regex, mut options) = (None, None, None);
    for (name, value) in doc {
        match name {
            "input" => input = Some(parser.expression(value)?),
            "regex" => regex = Some(parser.expression(value)?),
            "options" => options = Some(parser.expression(value)?),
            _ => return Err(Error::location(31024, format!("{operator} found an unknown argument: {name}"))),
        }
    }
    let missing = |code, name| Error::location(code, format!("{operator} requires '{name}' parameter"));
    let input = input.ok_or_else(|| missing(31022, "input"))?;
    let regex = regex.ok_or_else(|| missing(31023, "regex"))?;
    let mut parsed = RegexInput { operator, input, regex, options, compiled: None, answer };
    let constant = |part: &Expression| matches!(part, Expression::Constant(_));
    if constant(&parsed.regex) && parsed.options.as_ref().is_none_or(constant) {
        parsed.compiled = parsed.compile(&Environment::new(arbor_bson::Doc::empty()))?;
    }
    Ok(Expression::Special(Arc::new(parsed)))
}

impl RegexInput {
    /// `None` for null.
    fn compile(&self, environment: &Environment<'_>) -> Result<Option<Regex>> {
        let operator = self.operator;
        let regex = self.regex.eval_in(environment)?;
        let options = match &self.options {
            Some(options) => options.eval_in(environment)?,
            None => Evaluated::Missing,
        };
        let given = match options.get() {
            _ if options.is_nullish() => None,
            Some(ValueRef::String(options)) => Some(options),
            _ => {
                return Err(Error::location(51106, format!("{operator} needs 'options' to be of type string")));
            }
        };
        let (pattern, flags) = match regex.get() {
            _ if regex.is_nullish() => return Ok(None),
            Some(ValueRef::String(pattern)) => (pattern, given.unwrap_or("")),
            Some(ValueRef::Regex { pattern, options: own }) => match given {
                Some(_) if !own.is_empty() => {
                    let message =
                        format!("{operator}: found regex option(s) specified in both 'regex' and 'option' fields");
                    return Err(Error::location(51107, message));
                }
                given => (pattern, given.unwrap_or(own)),
            },
            _ => {
                let message = format!("{operator} needs 'regex' to be of type string or regex");
                return Err(Error::location(51105, message));
            }
        };
        if pattern.contains('\0') {
            let message = format!("{operator}: regular expression cannot contain an embedded null byte");
            return Err(Error::location(51109, message));
        }
        if flags.contains('\0') {
            let message = format!("{operator}: regular expression options cannot contain an embedded null byte");
            return Err(Error::location(51110, message));
        }
        Regex::new(pattern, flags).map(Some).map_err(|error| {
            if error.code.0 == 51108 {
                return Error::location(51108, format!("{operator}: {}", error.message));
            }
            let lines = error.message.lines().last().unwrap_or("").trim_start_matches("error: ");
            let reason = lines.strip_prefix("Regular expression is invalid: ").unwrap_or(lines);
            Error::location(51111, format!("Invalid Regex in {operator}: {reason}"))
        })
    }
}

impl std::fmt::Debug for RegexInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?}, {:?})", self.operator, self.input, self.regex)
    }
}

impl Special for RegexInput {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let input = self.input.eval_in(environment)?;
        if !input.is_nullish() && !matches!(input.get(), Some(ValueRef::String(_))) {
            let message = format!("{} needs 'input' to be of type string", self.operator);
            return Err(Error::location(51104, message));
        }
        let compiled_now = match &self.compiled {
            Some(_) => None,
            None => self.compile(environment)?,
        };
        match (self.compiled.as_ref().or(compiled_now.as_ref()), input.get()) {
            (Some(regex), Some(ValueRef::String(text))) => (self.answer)(Some((regex, text))),
            _ => (self.answer)(None),
        }
    }

    fn parts(&self) -> Vec<&Expression> {
        [&self.input, &self.regex].into_iter().chain(&self.options).collect()
    }
}

/// `{ match, idx, captures }`; `idx` counts the code points before.
pub(super) fn found_document(text: &str, capture: &Capture, before: usize) -> DocBuf {
    let part = |(start, end): (usize, usize)| text.get(start..end).unwrap_or("");
    let groups = capture.groups.iter().map(|group| group.map_or(ValueRef::Null, |at| ValueRef::String(part(at))));
    DocBuf::new()
        .with("match", part((capture.start, capture.end)))
        .with("idx", before as i32)
        .with("captures", &groups.collect::<ArrayBuf>())
}
