//! BSON as Arbor uses it: documents are read in place from their bytes and built by appending bytes.
//!
//! [`Doc`] and [`Array`] borrow bytes that passed [`validate`]; [`ValueRef`] is one element read in place; [`Value`]
//! owns one; [`DocBuf`] and [`ArrayBuf`] own whole documents and are what is built, stored and sent.
//!
//! ```
//! use arbor_bson::{Doc, DocBuf, ValueRef};
//!
//! let book = DocBuf::new().with("title", "Emma").with("year", 1815);
//! let bytes = book.as_bytes(); // as they are stored and sent
//!
//! let read = Doc::parse(bytes)?; // checked once, then read in place
//! assert!(matches!(read.get("title"), Some(ValueRef::String("Emma"))));
//! assert_eq!(read.iter().count(), 2);
//! assert!(Doc::parse(&bytes[1..]).is_err());
//! # Ok::<(), arbor_bson::Error>(())
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod buf;
mod code;
mod compare;
mod decimal;
mod depth;
pub mod display;
mod doc;
mod error;
pub mod extjson;
pub mod keystring;
pub mod numeric;
mod session_id;
mod text_order;
mod validate;
mod value;
mod wide;
mod writer;

pub use buf::{ArrayBuf, DocBuf};
pub use code::Code;
pub use compare::{canonical, canonical_type, compare, compare_arrays, compare_by, compare_docs, identical};
pub use decimal::{Finite, Parts};
pub use depth::{DEPTH_MAX, STORED_DEPTH_MAX};
pub use doc::{Array, Doc, Elements, FieldRef, Fields};
pub use error::{Error, Problem};
pub use numeric::Number;
pub use session_id::SessionId;
pub use text_order::{ByBytes, TextOrder};
pub use validate::{INTERNAL_SIZE_MAX, Limits, USER_SIZE_MAX, validate};
pub use value::{Decimal128, ObjectId, Timestamp, Type, Value, ValueRef};
pub use writer::Writer;
