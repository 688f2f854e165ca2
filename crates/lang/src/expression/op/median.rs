//! `$median`: the number in the middle of those in an array, or the only number.
//!
//! ```text
//! { $median: { input: ["$a", "$b", 10], method: "approximate" } } on { a: 1, b: 3 } => 3.0
//! { $median: { input: [1, 2, 3, 4], method: "approximate" } } => 2.0
//! { $median: { input: "$a", method: "approximate" } } on { a: 5 } => 5.0
//! { $median: { input: "$a", method: "approximate" } } => null
//! { $median: { input: "$a" } } => error 40414: BSON field '$median.method' is missing but a required field
//! { $median: 1 } => error 7436100: specification must be an object; found $median: int
//! ```

pub(super) use super::percentile::parse;
