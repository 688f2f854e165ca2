//! `$setEquals`: whether arrays have the same values, however often.
//!
//! ```text
//! { $setEquals: [[1, 2, 1], [2.0, 1]] } => true
//! { $setEquals: [[1], [1], [2]] } => false
//! { $setEquals: [[1]] } => error 17045: $setEquals needs at least two arguments had: 1
//! { $setEquals: [[1], 2] } => error 17044: All operands of $setEquals must be arrays. One argument is of type: int
//! ```

use crate::expression::Evaluated;
use crate::expression::set::Set;
use crate::{Collation, Error, Result};

pub fn eval<'a>(collation: &Collation, arrays: Vec<Evaluated<'a>>) -> Result<Evaluated<'a>> {
    if arrays.len() < 2 {
        let message = format!("$setEquals needs at least two arguments had: {}", arrays.len());
        return Err(Error::location(17045, message));
    }
    let mut first: Option<Set> = None;
    let mut equal = true;
    for array in &arrays {
        let set = Set::of(array, collation)?.ok_or_else(|| {
            let found = array.type_name();
            let message = format!("All operands of $setEquals must be arrays. One argument is of type: {found}");
            Error::location(17044, message)
        })?;
        match &first {
            None => first = Some(set),
            Some(first) => equal &= first.equals(&set),
        }
    }
    Ok(equal.into())
}
