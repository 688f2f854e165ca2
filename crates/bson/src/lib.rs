//! BSON as Arbor uses it: documents are read in place from their bytes and built by appending bytes.
//!
//! [`Doc`] and [`Array`] borrow bytes that passed [`validate`]; [`ValueRef`] is one element read in place; [`Value`]
//! owns one; [`DocBuf`] and [`ArrayBuf`] own whole documents and are what is built, stored and sent.

mod buf;
mod doc;
mod value;

pub use buf::{ArrayBuf, DocBuf};
pub use doc::{Array, Doc, Elements};
pub use value::{Decimal128, ObjectId, Timestamp, Type, Value, ValueRef};
