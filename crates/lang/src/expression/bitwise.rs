//! Shared code of `$bitAnd`, `$bitOr` and `$bitXor`.

use arbor_bson::ValueRef;

use super::Evaluated;
use crate::{Error, Result};

/// Combines whole numbers; the result is a long when one operand is, null when one is null.
pub(super) fn combine<'a>(
    operator: &str,
    operands: Vec<Evaluated<'a>>,
    neutral: i64,
    function: fn(i64, i64) -> i64,
) -> Result<Evaluated<'a>> {
    let (mut result, mut long, mut null) = (neutral, false, false);
    for operand in &operands {
        match operand.get() {
            _ if operand.is_nullish() => null = true,
            Some(ValueRef::Int32(v)) => result = function(result, i64::from(v)),
            Some(ValueRef::Int64(v)) => {
                result = function(result, v);
                long = true;
            }
            _ => return Err(Error::type_mismatch(format!("{operator} only supports int and long operands."))),
        }
    }
    Ok(match (null, long) {
        (true, _) => Evaluated::null(),
        (_, true) => result.into(),
        (_, false) => (result as i32).into(),
    })
}
