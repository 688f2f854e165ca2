//! `$setField`: a document with one field set (or removed by `$$REMOVE`), whose name may hold dots and dollars.
//!
//! ```text
//! { $setField: { field: "a.b", input: "$$ROOT", value: 5 } } on { x: 1 } => { x: 1, "a.b": 5 }
//! { $setField: { field: "x", input: "$$ROOT", value: 5 } } on { x: 1, y: 2 } => { x: 5, y: 2 }
//! { $setField: { field: "x", input: "$$ROOT", value: "$$REMOVE" } } on { x: 1, y: 2 } => { y: 2 }
//! { $setField: { field: "x", input: null, value: 1 } } => null
//! { $setField: { field: "x", input: 5, value: 1 } } => error 4161105: $setField requires 'input' to evaluate to type Object
//! { $setField: { field: 5, input: {}, value: 1 } } => error 4161107: $setField requires 'field' to evaluate to type String, but got int
//! { $setField: { field: "x", input: {} } } => error 4161103: $setField requires 'value' to be specified
//! ```

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};

use crate::document::with_value;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::path::Component;
use crate::{Error, Result, text};

#[derive(Debug)]
struct SetField {
    operator: &'static str,
    field: Component,
    input: Expression,
    value: Expression,
}

pub(super) fn parse(operator: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let fixed = if operator == "$unsetField" { Some(Expression::Constant(None)) } else { None };
    let ValueRef::Document(doc) = value else {
        let found = text::type_name(Some(value));
        let message = format!("{operator} only supports an object as its argument, found {found}");
        return Err(Error::location(4161100, message));
    };
    let known = |name: &str| matches!(name, "field" | "input") || (name == "value" && fixed.is_none());
    if let Some((unknown, _)) = doc.iter().find(|(name, _)| !known(name)) {
        return Err(Error::location(4161101, format!("{operator} found an unknown argument: {unknown}")));
    }
    let required = |name: &str, code| {
        doc.get(name).ok_or_else(|| Error::location(code, format!("{operator} requires '{name}' to be specified")))
    };
    let given = required("field", 4161102)?;
    // a path is refused in other words than an expression
    match given {
        ValueRef::String(path) if path.starts_with('$') => {
            let message =
                format!("{operator}: 'field' must not be a field path; use $literal for a name with a dollar");
            return Err(Error::location(4161108, message));
        }
        ValueRef::Array(_) => return Err(not_constant(operator)),
        ValueRef::Document(doc) if doc.first().is_some_and(|(name, _)| !name.starts_with('$')) => {
            return Err(not_constant(operator));
        }
        _ => {}
    }
    let field = match parser.expression(given)? {
        Expression::Constant(constant) => match constant.as_deref().map(Value::as_ref) {
            Some(ValueRef::String(name)) if name.contains('\0') => {
                let message = format!("{operator}: 'field' must not contain an embedded null byte");
                return Err(Error::location(9534700, message));
            }
            Some(ValueRef::String(name)) => Component::new(name),
            other => {
                let found = text::type_name(other);
                let message = format!("{operator} requires 'field' to evaluate to type String, but got {found}");
                return Err(Error::location(4161107, message));
            }
        },
        _ => return Err(not_constant(operator)),
    };
    let value = match fixed {
        Some(fixed) => fixed,
        None => parser.expression(required("value", 4161103)?)?,
    };
    let input = parser.expression(required("input", 4161109)?)?;
    Ok(Expression::Special(Arc::new(SetField { operator, field, input, value })))
}

fn not_constant(operator: &str) -> Error {
    Error::location(4161106, format!("{operator} requires 'field' to evaluate to a constant"))
}

impl Special for SetField {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let input = self.input.eval_in(environment)?;
        if input.is_nullish() {
            return Ok(Evaluated::null());
        }
        let Some(ValueRef::Document(doc)) = input.get() else {
            let message = format!("{} requires 'input' to evaluate to type Object", self.operator);
            return Err(Error::location(4161105, message));
        };
        let value = self.value.eval_in(environment)?;
        Ok(with_value(doc, std::slice::from_ref(&self.field), value.get()).into())
    }

    fn parts(&self) -> Vec<&Expression> {
        vec![&self.input, &self.value]
    }
}
