//! `$unsetField`: a document without one field, whose name may hold dots and dollars.
//!
//! ```text
//! { $unsetField: { field: "a.b", input: "$$ROOT" } } on { "a.b": 1, c: 2 } => { c: 2 }
//! { $unsetField: { field: "x", input: null } } => null
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    super::set_field::parse(name, value, parser)
}
