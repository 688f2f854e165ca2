//! `$let`: an expression with variables of its own. The variables do not see each other.
//!
//! ```text
//! { $let: { vars: { x: "$a", y: 2 }, in: ["$$x", "$$y"] } } on { a: 1 } => [1, 2]
//! { $let: { vars: { x: "$a" }, in: "$$x.b" } } on { a: { b: 3 } } => 3
//! { $let: { vars: { x: 1 }, in: { $let: { vars: { x: 2, y: "$$x" }, in: ["$$x", "$$y"] } } } } => [2, 1]
//! { $let: { vars: { CURRENT: "$a" }, in: "$b" } } on { a: { b: 4 } } => 4
//! { $let: { vars: { X: 1 }, in: 1 } } => error 9: 'X' starts with an invalid character for a user variable name
//! { $let: { in: 1 } } => error 16876: Missing 'vars' parameter to $let
//! { $let: { vars: {} } } => error 16877: Missing 'in' parameter to $let
//! { $let: 1 } => error 16874: $let only supports an object as its argument
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::expression::arguments::Named;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, variable};
use crate::{Error, Result};

#[derive(Debug)]
struct Let {
    values: Vec<Expression>,
    body: Expression,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let named = Named::read(name, value, &["vars", "in"], 16874, 16875)?;
    let ValueRef::Document(vars) = named.require("vars", 16876)? else {
        // an array is a list of fields to the parser
        let code = if matches!(named.get("vars"), Some(ValueRef::Array(_))) { 9 } else { 10065 };
        return Err(Error::location(code, "invalid parameter: expected an object (vars)"));
    };
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in vars {
        if name != "CURRENT" {
            variable::check_user_name(name)?;
        }
        names.push(name);
        values.push(parser.expression(value)?);
    }
    let body = parser.with_variables(&names, named.require("in", 16877)?)?;
    Ok(Expression::Special(Arc::new(Let { values, body })))
}

impl Special for Let {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let values = self.values.iter().map(|value| value.eval_in(environment)).collect::<Result<Vec<_>>>()?;
        let frame = environment.bind_all(&values);
        Ok(self.body.eval_in(&environment.within(&frame))?.into_owned())
    }

    fn parts(&self) -> Vec<&Expression> {
        self.values.iter().chain([&self.body]).collect()
    }
}
