//! Predicates that need what this server has not: JavaScript. Each is refused with
//! an error that says so. The constant predicates are here too.

use arbor_bson::ValueRef;

use super::Node;
use crate::{Error, Result, number};

/// The error for a name at the top of a filter.
pub(super) fn top_level(name: &str) -> Error {
    match name {
        "$where" => Error::bad_value("no globalScriptEngine in $where parsing"),
        _ => Error::bad_value(format!(
            "unknown top level operator: {name}. If you have a field name that starts with a '$' symbol, consider \
             using $getField or $setField."
        )),
    }
}

/// The error for a name in the operand of a field.
pub(super) fn operator(name: &str) -> Error {
    Error::bad_value(format!("unknown operator: {name}"))
}

/// `{ $alwaysTrue: 1 }`, `{ $alwaysFalse: 1 }`.
pub(super) fn always(name: &str, value: ValueRef) -> Result<()> {
    match number::to_f64(value) {
        Some(1.0) => Ok(()),
        _ => Err(Error::failed_to_parse(format!("{name} must be an integer value of 1"))),
    }
}

/// `{ $sampleRate: 0.33 }`.
pub(super) fn sample_rate(value: ValueRef) -> Result<Node> {
    match number::to_f64(value) {
        None => Err(Error::bad_value("argument to $sampleRate must be a numeric type")),
        Some(rate) if (0.0..=1.0).contains(&rate) => Ok(Node::SampleRate(rate)),
        Some(_) => Err(Error::bad_value("numeric argument to $sampleRate must be in [0, 1]")),
    }
}
