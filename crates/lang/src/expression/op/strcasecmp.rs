//! `$strcasecmp`: the order of two texts as -1, 0 or 1, upper and lower case (ASCII) being the same.
//!
//! ```text
//! { $strcasecmp: ["ab", "AB"] } => 0
//! { $strcasecmp: ["a", "B"] } => -1
//! { $strcasecmp: ["b", null] } => 1
//! ```

use crate::Result;
use crate::expression::Evaluated;
use crate::expression::convert::coerce_to_string;

pub(super) fn eval<'a>(a: Evaluated<'a>, b: Evaluated<'a>) -> Result<Evaluated<'a>> {
    let (a, b) = (coerce_to_string(&a)?.to_ascii_uppercase(), coerce_to_string(&b)?.to_ascii_uppercase());
    Ok((a.cmp(&b) as i32).into())
}
