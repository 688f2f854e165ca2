//! The delta of two documents, as in the oplog entry of an update: `{$v: 2, diff: ...}`.
//!
//! | field | of a document | of an array (`a: true`) |
//! |---|---|---|
//! | `d` | `{name: false}`: removed | |
//! | `u` | `{name: value}`: has this value now, in its place | |
//! | `i` | `{name: value}`: removed if it was there, then appended, in this order | |
//! | `sNAME` | the delta of an inner document or array | the delta of element `NAME` |
//! | `uN` | | element `N` has this value now; behind the end, nulls fill the gap |
//! | `l` | | the new length, of an array that got shorter |
//!
//! | before | after | delta |
//! |---|---|---|
//! | `{a: 1, b: 2}` | `{a: 3, c: 4}` | `{d: {b: false}, u: {a: 3}, i: {c: 4}}` |
//! | `{a: {b: 1, c: 1}}` | `{a: {b: 2, c: 1}}` | `{sa: {u: {b: 2}}}` |
//! | `{a: [1, 2, 3]}` | `{a: [1, 5]}` | `{sa: {a: true, l: 2, u1: 5}}` |

mod apply;
mod describe;
mod diff;
mod paths;
mod read;

pub use apply::{Mismatch, apply};
pub use describe::{Description, describe};
pub use diff::diff;
pub use paths::of_paths;
