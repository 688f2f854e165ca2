//! `$eq $lt $lte $gt $gte` (and `$ne`): comparisons within one type class.
//!
//! | operand | matches |
//! |---|---|
//! | null | `$eq $lte $gte`: null and missing fields |
//! | MinKey, MaxKey | values of every type, by the order of all types |
//! | NaN | `$eq $lte $gte`: NaN only |
//! | anything else | values of the same type class; all numbers are one class, strings and symbols are one |

use std::cmp::Ordering;

use arbor_bson::{Value, ValueRef, canonical_type};

use super::Compare;
use crate::{Collation, Error, Result, number};

impl Compare {
    pub fn of_operator(name: &str) -> Option<Compare> {
        Some(match name {
            "$eq" | "$ne" => Compare::Eq,
            "$lt" => Compare::Lt,
            "$lte" => Compare::Lte,
            "$gt" => Compare::Gt,
            "$gte" => Compare::Gte,
            _ => return None,
        })
    }

    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Compare::Eq => ordering.is_eq(),
            Compare::Lt => ordering.is_lt(),
            Compare::Lte => ordering.is_le(),
            Compare::Gt => ordering.is_gt(),
            Compare::Gte => ordering.is_ge(),
        }
    }
}

/// Refuses operands that no value compares with.
pub(super) fn check_operand(path: &str, name: &str, operand: ValueRef) -> Result<()> {
    match operand {
        ValueRef::Undefined => Err(Error::bad_value("cannot compare to undefined")),
        ValueRef::Regex { .. } if name == "$ne" => Err(Error::bad_value("Can't have regex as arg to $ne.")),
        ValueRef::Regex { .. } if name != "$eq" => {
            Err(Error::bad_value(format!("Can't have RegEx as arg to predicate over field '{path}'.")))
        }
        _ => Ok(()),
    }
}

/// Returns true if `value op operand` holds for `value` (`None`: missing).
pub fn holds(op: Compare, value: Option<ValueRef>, operand: &Value, collation: &Collation) -> bool {
    match (value, operand) {
        (Some(ValueRef::String(value)), Value::String(operand)) => {
            return op.accepts(collation.compare_str(value, operand));
        }
        (Some(ValueRef::Int32(value)), Value::Int32(operand)) => return op.accepts(value.cmp(operand)),
        (Some(ValueRef::ObjectId(value)), Value::ObjectId(operand)) => return op.accepts(value.cmp(operand)),
        _ => {}
    }
    let operand = operand.as_ref();
    let Some(value) = value else {
        return match operand {
            ValueRef::Null => !matches!(op, Compare::Lt | Compare::Gt),
            ValueRef::MinKey => matches!(op, Compare::Gt | Compare::Gte),
            ValueRef::MaxKey => matches!(op, Compare::Lt | Compare::Lte),
            _ => false,
        };
    };
    if canonical_type(value) != canonical_type(operand) {
        let unbracketed = matches!(operand, ValueRef::MinKey | ValueRef::MaxKey) && op != Compare::Eq;
        return unbracketed && op.accepts(collation.compare(value, operand));
    }
    if number::is_nan(value) || number::is_nan(operand) {
        let both = number::is_nan(value) && number::is_nan(operand);
        return both && !matches!(op, Compare::Lt | Compare::Gt);
    }
    op.accepts(collation.compare(value, operand))
}
