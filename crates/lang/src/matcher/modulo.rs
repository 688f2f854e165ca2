//! `$mod`.

use arbor_bson::ValueRef;

use super::Node;
use crate::{Error, Path, Result, number};

/// Parses the operand of `$mod`: `[divisor, remainder]`, both truncated to integers.
pub(super) fn parse(path: Path, value: ValueRef) -> Result<Node> {
    let ValueRef::Array(list) = value else {
        return Err(Error::bad_value("malformed mod, needs to be an array"));
    };
    let mut items = list.iter();
    let (Some(divisor), Some(remainder)) = (items.next(), items.next()) else {
        return Err(Error::bad_value("malformed mod, not enough elements"));
    };
    if items.next().is_some() {
        return Err(Error::bad_value("malformed mod, too many elements"));
    }
    let divisor = operand("divisor", divisor)?;
    let remainder = operand("remainder", remainder)?;
    if divisor == 0 {
        return Err(Error::bad_value("divisor cannot be 0"));
    }
    Ok(Node::Mod { path, divisor, remainder })
}

fn operand(what: &str, value: ValueRef) -> Result<i64> {
    if !number::is_number(value) {
        return Err(Error::bad_value(format!("malformed mod, {what} not a number")));
    }
    number::truncate_to_i64(value).ok_or_else(|| {
        let problem = match number::to_f64(value) {
            Some(v) if v.is_finite() => "Out of bounds coercing to integral value",
            _ => "Unable to coerce NaN/Inf to integral type",
        };
        Error::bad_value(format!("malformed mod, {what} value is invalid :: caused by :: {problem}"))
    })
}

/// Returns true if dividing the value leaves the remainder. Fractions of the value are truncated first.
pub(super) fn holds(value: ValueRef, divisor: i64, remainder: i64) -> bool {
    number::truncate_to_i64(value).is_some_and(|value| value.wrapping_rem(divisor) == remainder)
}
