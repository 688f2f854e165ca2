//! `$range`: whole numbers from a start up to (not including) an end, in steps.
//!
//! ```text
//! { $range: [0, 5, 2] } => [0, 2, 4]
//! { $range: [3, 0, -1] } => [3, 2, 1]
//! { $range: [0, 3] } => [0, 1, 2]
//! { $range: [0, 3, -1] } => []
//! { $range: ["x", 3] } => error 34443: $range requires a numeric starting value, found value of type: string
//! { $range: [0.5, 3] } => error 34444: $range requires a starting value that can be represented as a 32-bit integer, found value: 0.5
//! { $range: [0, "x"] } => error 34445: $range requires a numeric ending value, found value of type: string
//! { $range: [0, 1, 0] } => error 34449: $range requires a non-zero step value
//! { $range: [0, 2000000000] } => error 146: $range would use too much memory
//! ```

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::Evaluated;
use crate::stop::check_growth;
use crate::{Code, Error, Result, number, text};

/// Bytes of an element, or a few more.
const ELEMENT_BYTES: usize = 11;
/// 100 MB, MongoDB's bound.
const ELEMENTS_MAX: i64 = (100 * 1024 * 1024 / ELEMENT_BYTES) as i64;

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    let mut values = arguments.iter().map(Evaluated::get);
    let start = i64::from(whole("starting", 34443, values.next().flatten())?);
    let end = i64::from(whole("ending", 34445, values.next().flatten())?);
    let step = match values.next() {
        Some(step) => i64::from(whole("step", 34447, step)?),
        None => 1,
    };
    if step == 0 {
        return Err(Error::location(34449, "$range requires a non-zero step value"));
    }
    if (end - start) / step > ELEMENTS_MAX {
        return Err(Error::new(Code::EXCEEDED_MEMORY_LIMIT, "$range would use too much memory"));
    }
    check_growth("$range", ELEMENT_BYTES * usize::try_from((end - start) / step).unwrap_or(0))?;
    let mut numbers = ArrayBuf::new();
    let mut at = start;
    while (step > 0 && at < end) || (step < 0 && at > end) {
        numbers.push(at as i32);
        at += step;
    }
    Ok(numbers.into())
}

fn whole(which: &str, code: i32, value: Option<ValueRef>) -> Result<i32> {
    let Some(value) = value.filter(|value| number::is_number(*value)) else {
        let found = text::type_name(value);
        return Err(Error::location(
            code,
            format!("$range requires a numeric {which} value, found value of type: {found}"),
        ));
    };
    number::exact_i32(value).ok_or_else(|| {
        let shown = text::shell(value);
        let article = if which == "ending" { "an" } else { "a" };
        let message = format!(
            "$range requires {article} {which} value that can be represented as a 32-bit integer, found value: {shown}"
        );
        Error::location(code + 1, message)
    })
}
