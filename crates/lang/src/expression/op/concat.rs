//! `$concat`: strings one after the other; null when one is null or missing.
//!
//! ```text
//! { $concat: ["a", "-", "b"] } => "a-b"
//! { $concat: ["a", "$x"] } => null
//! { $concat: ["a", 1] } => error 16702: $concat only supports strings, not int
//! ```

use arbor_bson::ValueRef;

use crate::expression::Evaluated;
use crate::stop::check_growth;
use crate::{Error, Result};

pub(super) fn eval(strings: Vec<Evaluated>) -> Result<Evaluated> {
    let mut all = String::new();
    for string in &strings {
        match string.get() {
            _ if string.is_nullish() => return Ok(Evaluated::null()),
            Some(ValueRef::String(text)) => {
                all.push_str(text);
                check_growth("$concat", all.len())?;
            }
            _ => {
                let message = format!("$concat only supports strings, not {}", string.type_name());
                return Err(Error::location(16702, message));
            }
        }
    }
    Ok(all.into())
}
