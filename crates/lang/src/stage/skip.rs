//! `{ $skip: 5 }`.

use arbor_bson::ValueRef;

use crate::{Error, Result, number, text};

pub(super) fn parse(spec: ValueRef) -> Result<u64> {
    count("$skip", 5107200, spec)
}

/// A whole number that is not negative.
pub(super) fn count(stage: &str, code: i32, spec: ValueRef) -> Result<u64> {
    let problem = match number::exact_i64(spec) {
        Some(count) if count >= 0 => return Ok(count as u64),
        Some(_) => "Expected a non-negative number in",
        None if !number::is_number(spec) => "Expected a number in",
        None if number::truncate_to_i64(spec).is_some() => "Expected an integer",
        None => "Cannot represent as a 64-bit integer",
    };
    let field = text::field(stage, spec);
    Err(Error::location(code, format!("invalid argument to {stage} stage: {problem}: {field}")))
}
