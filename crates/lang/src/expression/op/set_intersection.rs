//! `$setIntersection`: the values that all arrays have, in order.
//!
//! ```text
//! { $setIntersection: [[3, 1, 2], [2, 3.0, 4]] } => [2, 3]
//! { $setIntersection: [] } => []
//! { $setIntersection: [[1], "$a"] } => null
//! { $setIntersection: [[1], 2] } => error 17047: All operands of $setIntersection must be arrays. One argument is of type: int
//! ```

use arbor_bson::ArrayBuf;

use crate::expression::Evaluated;
use crate::expression::set::Set;
use crate::{Collation, Error, Result};

pub(super) fn eval<'a>(collation: &Collation, arrays: Vec<Evaluated<'a>>) -> Result<Evaluated<'a>> {
    let mut common: Option<Set> = None;
    for array in &arrays {
        if array.is_nullish() {
            return Ok(Evaluated::null());
        }
        let set = Set::of(array, collation)?.ok_or_else(|| {
            let found = array.type_name();
            let message = format!("All operands of $setIntersection must be arrays. One argument is of type: {found}");
            Error::location(17047, message)
        })?;
        common = Some(match common {
            None => set,
            Some(common) => Set::of_values(
                common.into_values().into_iter().filter(|value| set.contains(*value)).collect(),
                collation,
            )?,
        });
    }
    Ok(common.map(Set::into_values).unwrap_or_default().into_iter().collect::<ArrayBuf>().into())
}
