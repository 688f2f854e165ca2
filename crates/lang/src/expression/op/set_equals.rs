//! `$setEquals`: whether arrays have the same values, however often.
//!
//! ```text
//! { $setEquals: [[1, 2, 1], [2.0, 1]] } => true
//! { $setEquals: [[1], [1], [2]] } => false
//! { $setEquals: [[1]] } => error 17045: $setEquals needs at least two arguments had: 1
//! { $setEquals: [[1], "$a"] } on { a: 2 } => error 17044: All operands of $setEquals must be arrays. One argument is of type: int
//! { $setEquals: [[1], 2] } => error 5887502: All operands of $setEquals must be arrays. One argument is of type: int
//! ```

use arbor_bson::{Value, ValueRef};

use crate::expression::form::{ANY, Form};
use crate::expression::parse::Parser;
use crate::expression::set::Set;
use crate::expression::{Evaluated, Expression};
use crate::{Collation, Error, Result, text};

/// Refuses constants that are no arrays, with a code of their own.
pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let parsed = Form::NaryBy(0, ANY, eval).parse(name, value, parser)?;
    let Expression::Call(call) = &parsed else { return Ok(parsed) };
    if call.arguments().len() < 2 {
        return Ok(parsed);
    }
    for argument in call.arguments() {
        let Expression::Constant(constant) = argument else { continue };
        let constant = constant.as_deref().map(Value::as_ref);
        if !matches!(constant, Some(ValueRef::Array(_))) {
            return Err(not_an_array(5887502, text::type_name(constant)));
        }
    }
    Ok(parsed)
}

fn not_an_array(code: i32, found: &str) -> Error {
    let message = format!("All operands of $setEquals must be arrays. One argument is of type: {found}");
    Error::location(code, message)
}

fn eval<'a>(collation: &Collation, arrays: Vec<Evaluated<'a>>) -> Result<Evaluated<'a>> {
    if arrays.len() < 2 {
        let message = format!("$setEquals needs at least two arguments had: {}", arrays.len());
        return Err(Error::location(17045, message));
    }
    let mut first: Option<Set> = None;
    let mut equal = true;
    for array in &arrays {
        let set = Set::of(array, collation)?.ok_or_else(|| not_an_array(17044, array.type_name()))?;
        match &first {
            None => first = Some(set),
            Some(first) => equal &= first.equals(&set),
        }
    }
    Ok(equal.into())
}
