//! `$literal` (and `$const`): the operand as it is, nothing in it is evaluated.
//!
//! ```text
//! { $literal: "$a" } on { a: 1 } => "$a"
//! { $literal: { $add: [1, 2] } } => { $add: [1, 2] }
//! { $const: 5 } => 5
//! ```

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::Expression;
use crate::expression::parse::Parser;

pub(super) fn parse(_name: &'static str, value: ValueRef, _parser: &mut Parser) -> Result<Expression> {
    Ok(Expression::constant(value.to_value()))
}
