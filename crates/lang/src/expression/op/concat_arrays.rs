//! `$concatArrays`: arrays one after the other; null when one is null or missing.
//!
//! ```text
//! { $concatArrays: [[1], [2, 3], []] } => [1, 2, 3]
//! { $concatArrays: [[1], "$a"] } => null
//! { $concatArrays: [[1], 2] } => error 28664: $concatArrays only supports arrays, not int
//! ```

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::Evaluated;
use crate::stop::check_growth;
use crate::{Error, Result};

pub(super) fn eval(arrays: Vec<Evaluated>) -> Result<Evaluated> {
    let mut all = ArrayBuf::new();
    for array in &arrays {
        match array.get() {
            _ if array.is_nullish() => return Ok(Evaluated::null()),
            Some(ValueRef::Array(elements)) => {
                for element in elements.iter() {
                    all.push(element);
                }
                check_growth("$concatArrays", all.as_array().as_bytes().len())?;
            }
            _ => {
                let message = format!("$concatArrays only supports arrays, not {}", array.type_name());
                return Err(Error::location(28664, message));
            }
        }
    }
    Ok(all.into())
}
