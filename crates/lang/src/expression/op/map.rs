//! `$map`: an expression applied to each element of an array.
//!
//! ```text
//! { $map: { input: "$a", as: "x", in: { v: "$$x" } } } on { a: [1, 2] } => [{ v: 1 }, { v: 2 }]
//! { $map: { input: [1, 2], in: ["$$this", "$b"] } } on { b: 3 } => [[1, 3], [2, 3]]
//! { $map: { input: "$a", in: "$$this.b" } } on { a: [{ b: 1 }, {}] } => [1, null]
//! { $map: { input: "$a", in: 1 } } => null
//! { $map: { input: 1, in: 1 } } => error 16883: input to $map must be an array not int
//! { $map: { in: 1 } } => error 16880: Missing 'input' parameter to $map
//! { $map: { input: [] } } => error 16882: Missing 'in' parameter to $map
//! { $map: 1 } => error 16878: $map only supports an object as its argument
//! { $map: { input: [], in: 1, x: 1 } } => error 16879: Unrecognized parameter to $map: x
//! ```

use std::sync::Arc;

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::arguments::Named;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, variable};
use crate::stop::{check_growth, tick};
use crate::{Error, Result};

#[derive(Debug)]
struct Map {
    input: Expression,
    body: Expression,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let named = Named::read(name, value, &["input", "as", "in"], 16878, 16879)?;
    let input = parser.expression(named.require("input", 16880)?)?;
    let bound = variable::name_of(named.get("as"))?;
    let body = parser.with_variable(bound, named.require("in", 16882)?)?;
    Ok(Expression::Special(Arc::new(Map { input, body })))
}

impl Special for Map {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let input = self.input.eval_in(environment)?;
        if input.is_nullish() {
            return Ok(Evaluated::null());
        }
        let Some(ValueRef::Array(elements)) = input.get() else {
            let message = format!("input to $map must be an array not {}", input.type_name());
            return Err(Error::location(16883, message));
        };
        let mut results = ArrayBuf::new();
        for element in elements.iter() {
            let frame = environment.bind(Some(element));
            tick()?;
            results.push(self.body.eval_in(&environment.within(&frame))?.or_null());
            check_growth("$map", results.as_array().as_bytes().len())?;
        }
        Ok(results.into())
    }

    fn parts(&self) -> Vec<&Expression> {
        vec![&self.input, &self.body]
    }
}
