//! `$getField`: a field by its name, which may hold dots and dollars.
//!
//! ```text
//! { $getField: "a.b" } on { "a.b": 5 } => 5
//! { $getField: { field: "a", input: "$x" } } on { x: { a: 7 } } => 7
//! { $getField: { field: { $literal: "$p" }, input: "$$ROOT" } } on { $p: 1 } => 1
//! { $getField: { field: "a", input: 5 } } => missing
//! { $getField: { field: "a", input: null } } => null
//! { $getField: 5 } => error 3041704: $getField requires 'field' to evaluate to type String, but got int
//! { $getField: { field: "a" } } => error 3041703: $getField requires 'input' to be specified
//! { $getField: { field: "a", x: 1 } } => error 3041701: $getField found an unknown argument: x
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::{Error, Result};

#[derive(Debug)]
struct GetField {
    field: Expression,
    input: Expression,
}

pub(super) fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let current = || ValueRef::String("$$CURRENT");
    let (field, input) = match value {
        ValueRef::Document(doc) if !doc.first().is_some_and(|(name, _)| name.starts_with('$')) => {
            if let Some((unknown, _)) = doc.iter().find(|(name, _)| !matches!(*name, "field" | "input")) {
                return Err(Error::location(3041701, format!("$getField found an unknown argument: {unknown}")));
            }
            let missing = || Error::location(3041702, "$getField requires 'field' to be specified");
            let missing_input = || Error::location(3041703, "$getField requires 'input' to be specified");
            (doc.get("field").ok_or_else(missing)?, doc.get("input").ok_or_else(missing_input)?)
        }
        other => (other, current()),
    };
    let (field, input) = (parser.expression(field)?, parser.expression(input)?);
    if let Expression::Constant(value) = &field {
        name_of(&value.as_deref().map_or(Evaluated::Missing, Evaluated::borrowed))?;
    }
    Ok(Expression::Special(Arc::new(GetField { field, input })))
}

fn name_of<'v>(field: &'v Evaluated) -> Result<&'v str> {
    match field.get() {
        Some(ValueRef::String(name)) => Ok(name),
        _ => {
            let found = field.type_name();
            let message = format!("$getField requires 'field' to evaluate to type String, but got {found}");
            Err(Error::location(3041704, message))
        }
    }
}

impl Special for GetField {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let field = self.field.eval_in(environment)?;
        let name = name_of(&field)?;
        let input = self.input.eval_in(environment)?;
        match input {
            Evaluated::Borrowed(ValueRef::Document(doc)) => {
                Ok(doc.get(name).map_or(Evaluated::Missing, Evaluated::Borrowed))
            }
            other => match other.get() {
                Some(ValueRef::Document(doc)) => {
                    Ok(doc.get(name).map_or(Evaluated::Missing, |value| Evaluated::Owned(value.to_value())))
                }
                Some(ValueRef::Null) => Ok(Evaluated::null()),
                _ => Ok(Evaluated::Missing),
            },
        }
    }

    fn parts(&self) -> Vec<&Expression> {
        vec![&self.field, &self.input]
    }
}
