//! `$setIsSubset`: whether all values of one array are in another.
//!
//! ```text
//! { $setIsSubset: [[1, 1], [2, 1]] } => true
//! { $setIsSubset: [[3], [2, 1]] } => false
//! { $setIsSubset: [1, []] } => error 17046: both operands of $setIsSubset must be arrays. First argument is of type: int
//! { $setIsSubset: [[], 1] } => error 17042: both operands of $setIsSubset must be arrays. Second argument is of type: int
//! ```

use crate::expression::Evaluated;
use crate::expression::set::Set;
use crate::{Collation, Error, Result};

pub(super) fn eval<'a>(collation: &Collation, part: Evaluated<'a>, whole: Evaluated<'a>) -> Result<Evaluated<'a>> {
    let not_array = |which: &str, code, found: &Evaluated| {
        let found = found.type_name();
        Error::location(
            code,
            format!("both operands of $setIsSubset must be arrays. {which} argument is of type: {found}"),
        )
    };
    let part_set = Set::of(&part, collation)?.ok_or_else(|| not_array("First", 17046, &part))?;
    let whole_set = Set::of(&whole, collation)?.ok_or_else(|| not_array("Second", 17042, &whole))?;
    Ok(part_set.into_values().into_iter().all(|value| whole_set.contains(value)).into())
}
