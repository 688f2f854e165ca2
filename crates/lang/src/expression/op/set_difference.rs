//! `$setDifference`: the different values of one array that another lacks.
//!
//! ```text
//! { $setDifference: [[3, 1, 3, 2], [2]] } => [3, 1]
//! { $setDifference: [[1], "$a"] } => null
//! { $setDifference: [1, []] } => error 17048: both operands of $setDifference must be arrays. First argument is of type: int
//! { $setDifference: [[], 1] } => error 17049: both operands of $setDifference must be arrays. Second argument is of type: int
//! ```

use arbor_bson::{ArrayBuf, ValueRef};

use crate::collation::ValueSet;
use crate::expression::Evaluated;
use crate::stop::tick;
use crate::{Collation, Error, Result};

pub(super) fn eval<'a>(collation: &Collation, from: Evaluated<'a>, without: Evaluated<'a>) -> Result<Evaluated<'a>> {
    if from.is_nullish() || without.is_nullish() {
        return Ok(Evaluated::null());
    }
    let not_array = |which: &str, code, found: &Evaluated| {
        let found = found.type_name();
        Error::location(
            code,
            format!("both operands of $setDifference must be arrays. {which} argument is of type: {found}"),
        )
    };
    let Some(ValueRef::Array(elements)) = from.get() else { return Err(not_array("First", 17048, &from)) };
    let Some(ValueRef::Array(gone)) = without.get() else { return Err(not_array("Second", 17049, &without)) };
    let mut seen = ValueSet::new(collation);
    for element in gone.iter() {
        tick()?;
        seen.insert(element);
    }
    let mut left: Vec<ValueRef> = Vec::new();
    for element in elements.iter() {
        tick()?;
        if seen.insert(element) {
            left.push(element);
        }
    }
    Ok(left.into_iter().collect::<ArrayBuf>().into())
}
