//! `$indexOfArray`: the first position of a value in an array, or in a part of it; -1 when it is not there.
//!
//! ```text
//! { $indexOfArray: [["a", "b", "a"], "a"] } => 0
//! { $indexOfArray: [["a", "b", "a"], "a", 1] } => 2
//! { $indexOfArray: [["a", "b", "a"], "a", 1, 2] } => -1
//! { $indexOfArray: ["$x", 1] } => null
//! { $indexOfArray: [1, 1] } => error 40090: $indexOfArray requires an array as a first argument, found: int
//! { $indexOfArray: [[1], 1, 1.5] } => error 40096: $indexOfArray requires an integral starting index, found a value of type: double, with value: "1.5"
//! { $indexOfArray: [[1], 1, -1] } => error 40097: $indexOfArray requires a nonnegative starting index, found: -1
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::expression::index_of::position;
use crate::{Collation, Error, Result};

pub(super) fn eval<'a>(collation: &Collation, arguments: Vec<Evaluated<'a>>) -> Result<Evaluated<'a>> {
    let mut arguments = arguments.into_iter();
    let array = arguments.next().unwrap_or(Evaluated::Missing);
    let target = arguments.next().unwrap_or(Evaluated::Missing);
    if array.is_nullish() {
        return Ok(Evaluated::null());
    }
    let Some(ValueRef::Array(elements)) = array.get() else {
        let message = format!("$indexOfArray requires an array as a first argument, found: {}", array.type_name());
        return Err(Error::location(40090, message));
    };
    let start = position("$indexOfArray", "starting", arguments.next())?.unwrap_or(0);
    let end = position("$indexOfArray", "ending", arguments.next())?.unwrap_or(usize::MAX);
    let target = target.get().unwrap_or(ValueRef::Undefined);
    let found = elements
        .iter()
        .enumerate()
        .skip(start)
        .take_while(|(at, _)| *at < end)
        .find(|(_, element)| collation.equal(*element, target));
    Ok(found.map_or(-1, |(at, _)| at as i32).into())
}
