//! `$in`: whether a value is an element of an array.
//!
//! ```text
//! { $in: [2, [1, 2.0]] } => true
//! { $in: ["$b", "$a"] } on { a: [1], b: 3 } => false
//! { $in: [1, 1] } => error 40081: $in requires an array as a second argument, found: int
//! { $in: [1, "$a"] } => error 40081: $in requires an array as a second argument, found: missing
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::{Collation, Error, Result};

pub(super) fn eval<'a>(collation: &Collation, target: Evaluated<'a>, array: Evaluated<'a>) -> Result<Evaluated<'a>> {
    let Some(ValueRef::Array(elements)) = array.get() else {
        let message = format!("$in requires an array as a second argument, found: {}", array.type_name());
        return Err(Error::location(40081, message));
    };
    let target = target.get().unwrap_or(ValueRef::Undefined);
    Ok(elements.iter().any(|element| collation.equal(element, target)).into())
}
