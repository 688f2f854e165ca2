//! `$setUnion`: the different values of several arrays, in order.
//!
//! ```text
//! { $setUnion: [[3, 1], [2, 1.0]] } => [1, 2, 3]
//! { $setUnion: [[1], "$a"] } => null
//! { $setUnion: [[1], 2] } => error 17043: All operands of $setUnion must be arrays. One argument is of type: int
//! ```

use arbor_bson::ArrayBuf;

use crate::expression::Evaluated;
use crate::expression::set::{Set, check_len};
use crate::{Collation, Error, Result};

pub(super) fn eval<'a>(collation: &Collation, arrays: Vec<Evaluated<'a>>) -> Result<Evaluated<'a>> {
    let mut all = Vec::new();
    for array in &arrays {
        if array.is_nullish() {
            return Ok(Evaluated::null());
        }
        let set = Set::of(array, collation)?.ok_or_else(|| {
            let found = array.type_name();
            Error::location(
                17043,
                format!("All operands of $setUnion must be arrays. One argument is of type: {found}"),
            )
        })?;
        let values = set.into_values();
        check_len(all.len() + values.len())?;
        all.extend(values);
    }
    Ok(Set::of_values(all, collation)?.into_values().into_iter().collect::<ArrayBuf>().into())
}
