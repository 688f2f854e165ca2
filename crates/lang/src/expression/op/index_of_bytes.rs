//! `$indexOfBytes`: the first place of a text in another, in UTF-8 bytes; -1 when it is not there.
//!
//! ```text
//! { $indexOfBytes: ["cafeteria", "e"] } => 3
//! { $indexOfBytes: ["éa", "a"] } => 2
//! { $indexOfBytes: ["abab", "b", 2] } => 3
//! { $indexOfBytes: ["abab", "b", 2, 3] } => -1
//! { $indexOfBytes: ["$a", "b"] } => null
//! { $indexOfBytes: [1, "b"] } => error 40091: $indexOfBytes requires a string as the first argument, found: int
//! { $indexOfBytes: ["b", 1] } => error 40092: $indexOfBytes requires a string as the second argument, found: int
//! ```

use crate::Result;
use crate::expression::{Evaluated, index_of};

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    index_of::in_text("$indexOfBytes", [40091, 40092], arguments, |text, target, range| {
        let part = text.as_bytes().get(range.start..range.end.min(text.len()))?;
        Some(range.start + find(part, target.as_bytes())?)
    })
}

fn find(text: &[u8], target: &[u8]) -> Option<usize> {
    if target.is_empty() {
        return Some(0);
    }
    text.windows(target.len()).position(|window| window == target)
}
