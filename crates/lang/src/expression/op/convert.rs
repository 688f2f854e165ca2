//! `$convert`: a value in another type, with results for null and for failures.
//!
//! ```text
//! { $convert: { input: "5", to: "int" } } => 5
//! { $convert: { input: 5, to: 2 } } => "5"
//! { $convert: { input: "x", to: "int", onError: "bad" } } => "bad"
//! { $convert: { input: null, to: "int", onNull: 0 } } => 0
//! { $convert: { input: "$a", to: "int" } } => null
//! { $convert: { input: 1, to: "foo" } } => error 2: Unknown type name: foo
//! { $convert: { input: 1 } } => error 9: Missing 'to' parameter to $convert
//! { $convert: { input: 1, to: "int", x: 1 } } => error 9: $convert found an unknown argument: x
//! { $convert: 1 } => error 9: $convert expects an object of named arguments but found: int
//! ```

use std::sync::Arc;

use arbor_bson::{Type, ValueRef};

use crate::expression::convert::convert;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::matcher::type_set;
use crate::{Code, Error, Result, number, text};

#[derive(Debug)]
struct Convert {
    input: Expression,
    to: Expression,
    on_error: Option<Expression>,
    on_null: Option<Expression>,
}

pub fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let ValueRef::Document(doc) = value else {
        let found = text::type_name(Some(value));
        return Err(Error::failed_to_parse(format!(
            "$convert expects an object of named arguments but found: {found}"
        )));
    };
    let (mut input, mut to, mut on_error, mut on_null) = (None, None, None, None);
    for (name, value) in doc {
        let slot = match name {
            "input" => &mut input,
            "to" => &mut to,
            "onError" => &mut on_error,
            "onNull" => &mut on_null,
            _ => return Err(Error::failed_to_parse(format!("$convert found an unknown argument: {name}"))),
        };
        *slot = Some(parser.expression(value)?);
    }
    let missing = |what| Error::failed_to_parse(format!("Missing '{what}' parameter to $convert"));
    let input = input.ok_or_else(|| missing("input"))?;
    let to = to.ok_or_else(|| missing("to"))?;
    Ok(Expression::Special(Arc::new(Convert { input, to, on_error, on_null })))
}

fn target(value: ValueRef) -> Result<Type> {
    match value {
        ValueRef::String(name) => {
            type_set::by_alias(name).ok_or_else(|| Error::bad_value(format!("Unknown type name: {name}")))
        }
        other if number::is_number(other) => {
            let shown = text::shell(other);
            let integral = "In $convert, numeric 'to' argument is not an integer";
            let code = number::exact_i32(other).ok_or_else(|| Error::failed_to_parse(integral))?;
            let unknown = || {
                Error::failed_to_parse(format!(
                    "In $convert, numeric value for 'to' does not correspond to a BSON type: {shown}"
                ))
            };
            type_set::by_number(code).ok_or_else(unknown)
        }
        other => {
            let found = text::type_name(Some(other));
            let message = format!("$convert's 'to' argument must be a string or number, but is {found}");
            Err(Error::failed_to_parse(message))
        }
    }
}

impl Special for Convert {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let to = self.to.eval_in(environment)?;
        let input = self.input.eval_in(environment)?;
        if input.is_nullish() {
            return match &self.on_null {
                Some(on_null) => on_null.eval_in(environment),
                None => Ok(Evaluated::null()),
            };
        }
        if to.is_nullish() {
            return Ok(Evaluated::null());
        }
        match (convert(input.or_null(), target(to.or_null())?), &self.on_error) {
            (Ok(value), _) => Ok(Evaluated::Owned(value)),
            (Err(error), Some(on_error)) if error.code == Code::CONVERSION_FAILURE => on_error.eval_in(environment),
            (Err(error), _) => Err(error),
        }
    }

    fn parts(&self) -> Vec<&Expression> {
        [&self.input, &self.to].into_iter().chain(&self.on_error).chain(&self.on_null).collect()
    }
}
