//! `$indexOfCP`: the first place of a text in another, in code points; -1 when it is not there.
//!
//! ```text
//! { $indexOfCP: ["éa", "a"] } => 1
//! { $indexOfCP: ["abab", "b", 2] } => 3
//! { $indexOfCP: ["abab", "b", 9] } => -1
//! { $indexOfCP: ["$a", "b"] } => null
//! { $indexOfCP: [1, "b"] } => error 40093: $indexOfCP requires a string as the first argument, found: int
//! { $indexOfCP: ["b", 1] } => error 40094: $indexOfCP requires a string as the second argument, found: int
//! ```

use crate::Result;
use crate::expression::{Evaluated, index_of};

pub(super) fn eval(arguments: Vec<Evaluated>) -> Result<Evaluated> {
    index_of::in_text("$indexOfCP", [40093, 40094], arguments, |text, target, range| {
        let byte_of = |point: usize| text.char_indices().nth(point).map_or(text.len(), |(byte, _)| byte);
        let in_range = range.start <= text.chars().count();
        let part = text.get(byte_of(range.start)..byte_of(range.end)).filter(|_| in_range)?;
        let before = part.get(..part.find(target)?)?;
        Some(range.start + before.chars().count())
    })
}
