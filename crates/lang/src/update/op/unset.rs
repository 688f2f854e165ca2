//! `$unset: { field: "" }`: the operand does not matter. A field that is not there, or cannot be, is no error; an
//! element of an array becomes null so that the others keep their positions.
//!
//! `{ a: 1, b: [1, 2] }`, `{ $unset: { a: "", "b.0": "" } }` -> `{ b: [null, 2] }`
//!
//! It needs no state: see `Op::Unset` in the parent.
