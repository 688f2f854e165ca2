//! `$arrayElemAt`: the element at a position; negative positions count from the end.
//!
//! ```text
//! { $arrayElemAt: [[1, 2, 3], 0] } => 1
//! { $arrayElemAt: [[1, 2, 3], -1] } => 3
//! { $arrayElemAt: [[1, 2, 3], 5] } => missing
//! { $arrayElemAt: ["$a", 0] } => null
//! { $arrayElemAt: [1, 0] } => error 28689: $arrayElemAt's first argument must be an array, but is int
//! { $arrayElemAt: [[1], "x"] } => error 28690: $arrayElemAt's second argument must be a numeric value, but is string
//! { $arrayElemAt: [[1], 0.5] } => error 28691: $arrayElemAt's second argument must be representable as a 32-bit integer: 0.5
//! ```

use arbor_bson::{Array, ValueRef};

use crate::expression::Evaluated;
use crate::{Error, Result, number, text};

pub(super) fn eval<'a>(array: Evaluated<'a>, at: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if array.is_nullish() || at.is_nullish() {
        return Ok(Evaluated::null());
    }
    if !matches!(array.get(), Some(ValueRef::Array(_))) {
        let message = format!("$arrayElemAt's first argument must be an array, but is {}", array.type_name());
        return Err(Error::location(28689, message));
    }
    if !at.get().is_some_and(number::is_number) {
        let message = format!("$arrayElemAt's second argument must be a numeric value, but is {}", at.type_name());
        return Err(Error::location(28690, message));
    }
    let position = number::exact_i64(at.or_null()).filter(|at| i32::try_from(*at).is_ok()).ok_or_else(|| {
        let shown = text::shell(at.or_null());
        Error::location(
            28691,
            format!("$arrayElemAt's second argument must be representable as a 32-bit integer: {shown}"),
        )
    })?;
    Ok(pick(array, |elements| element(elements, position)))
}

fn element(elements: Array<'_>, position: i64) -> Option<ValueRef<'_>> {
    let position = if position < 0 { position + elements.len() as i64 } else { position };
    usize::try_from(position).ok().and_then(|position| elements.get(position))
}

/// One element of an array, borrowed when the array is.
pub(super) fn pick<'a>(
    array: Evaluated<'a>,
    choose: impl for<'x> Fn(Array<'x>) -> Option<ValueRef<'x>>,
) -> Evaluated<'a> {
    match array {
        Evaluated::Borrowed(ValueRef::Array(array)) => choose(array).map_or(Evaluated::Missing, Evaluated::Borrowed),
        other => match other.get() {
            Some(ValueRef::Array(array)) => {
                choose(array).map_or(Evaluated::Missing, |value| Evaluated::Owned(value.to_value()))
            }
            _ => Evaluated::Missing,
        },
    }
}
