//! `$meta`: metadata of a document.
//!
//! ```text
//! { $meta: "indexKey" } => missing
//! { $meta: "textScore" } => missing
//! { $meta: "foo" } => error 17308: Unsupported argument to $meta: foo
//! { $meta: 1 } => error 17307: $meta only supports string arguments
//! ```

use arbor_bson::ValueRef;

use crate::expression::Expression;
use crate::expression::parse::Parser;
use crate::{Error, MetaKind, Result};

pub(super) fn parse(_name: &'static str, value: ValueRef, _parser: &mut Parser) -> Result<Expression> {
    let ValueRef::String(what) = value else {
        return Err(Error::location(17307, "$meta only supports string arguments"));
    };
    match MetaKind::of_name(what) {
        Some(kind) => Ok(Expression::Meta(kind)),
        None => Err(Error::location(17308, format!("Unsupported argument to $meta: {what}"))),
    }
}
