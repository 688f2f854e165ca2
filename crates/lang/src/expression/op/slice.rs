//! `$slice`: a part of an array: the first n, the last n (negative), or n from a position.
//!
//! ```text
//! { $slice: [[1, 2, 3], 2] } => [1, 2]
//! { $slice: [[1, 2, 3], -2] } => [2, 3]
//! { $slice: [[1, 2, 3], 1, 5] } => [2, 3]
//! { $slice: [[1, 2, 3], -2, 1] } => [2]
//! { $slice: ["$a", 1] } => null
//! { $slice: [1, 1] } => error 28724: First argument to $slice must be an array, but is of type: int
//! { $slice: [[1], "x"] } => error 28725: Second argument to $slice must be a numeric value, but is of type: string
//! { $slice: [[1], 0, 0] } => error 28729: Third argument to $slice must be positive: 0
//! ```

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::Evaluated;
use crate::{Error, Result, number, text};

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    if arguments.iter().any(Evaluated::is_nullish) {
        return Ok(Evaluated::null());
    }
    let mut values = arguments.iter().map(Evaluated::or_null);
    let (Some(array), Some(second), third) = (values.next(), values.next(), values.next()) else {
        return Ok(Evaluated::null());
    };
    let ValueRef::Array(elements) = array else {
        let found = text::type_name(Some(array));
        let message = format!("First argument to $slice must be an array, but is of type: {found}");
        return Err(Error::location(28724, message));
    };
    let second = whole("Second", 28725, second)?;
    let count = match third {
        None => None,
        Some(value) => match whole("Third", 28727, value)? {
            count if count > 0 => Some(count as usize),
            count => return Err(Error::location(28729, format!("Third argument to $slice must be positive: {count}"))),
        },
    };
    let (start, count) = range(elements.len(), second, count);
    Ok(elements.iter().skip(start).take(count).collect::<ArrayBuf>().into())
}

/// First position and number of elements that a slice of an array of `len` elements takes.
pub fn range(len: usize, second: i64, count: Option<usize>) -> (usize, usize) {
    let from_end = len.saturating_sub(second.unsigned_abs() as usize);
    match count {
        None if second >= 0 => (0, second as usize),
        None => (from_end, len - from_end),
        Some(count) if second >= 0 => (second as usize, count),
        Some(count) => (from_end, count),
    }
}

fn whole(which: &str, code: i32, value: ValueRef) -> Result<i64> {
    if !number::is_number(value) {
        let found = text::type_name(Some(value));
        let what = if which == "Third" { "numeric" } else { "a numeric value" };
        let message = format!("{which} argument to $slice must be {what}, but is of type: {found}");
        return Err(Error::location(code, message));
    }
    number::exact_i64(value).filter(|v| i32::try_from(*v).is_ok()).ok_or_else(|| {
        let shown = text::shell(value);
        let message = format!("{which} argument to $slice can't be represented as a 32-bit integer: {shown}");
        Error::location(code + 1, message)
    })
}
