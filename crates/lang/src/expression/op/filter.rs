//! `$filter`: the elements of an array for which a condition is true, at most `limit` of them.
//!
//! ```text
//! { $filter: { input: "$a", as: "x", cond: { $gt: ["$$x", 1] } } } on { a: [1, 2, 3] } => [2, 3]
//! { $filter: { input: [1, 2, 3], cond: true, limit: 2 } } => [1, 2]
//! { $filter: { input: "$a", cond: true } } => null
//! { $filter: { input: 1, cond: true } } => error 28651: input to $filter must be an array not int
//! { $filter: { cond: true } } => error 28648: Missing 'input' parameter to $filter
//! { $filter: { input: [] } } => error 28650: Missing 'cond' parameter to $filter
//! { $filter: { input: [], cond: 1, x: 1 } } => error 28647: Unrecognized parameter to $filter: x
//! { $filter: { input: [], cond: 1, limit: 0 } } => error 327392: $filter: limit must be greater than 0: 0
//! ```

use std::sync::Arc;

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::arguments::Named;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, variable};
use crate::{Error, Result, number, text};

#[derive(Debug)]
struct Filter {
    input: Expression,
    condition: Expression,
    limit: Option<Expression>,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let named = Named::read(name, value, &["input", "as", "cond", "limit"], 28646, 28647)?;
    let input = parser.expression(named.require("input", 28648)?)?;
    let bound = variable::name_of(named.get("as"))?;
    let condition = parser.with_variable(bound, named.require("cond", 28650)?)?;
    let limit = named.get("limit").map(|limit| parser.expression(limit)).transpose()?;
    Ok(Expression::Special(Arc::new(Filter { input, condition, limit })))
}

impl Filter {
    fn limit(&self, environment: &Environment<'_>) -> Result<usize> {
        let Some(limit) = &self.limit else { return Ok(usize::MAX) };
        let value = limit.eval_in(environment)?;
        if value.is_nullish() {
            return Ok(usize::MAX);
        }
        let shown = text::shell(value.or_null());
        match number::exact_i64(value.or_null()).filter(|limit| i32::try_from(*limit).is_ok()) {
            None => {
                let message = format!("$filter: limit must be represented as a 32-bit integral value: {shown}");
                Err(Error::location(327391, message))
            }
            Some(limit) if limit < 1 => {
                Err(Error::location(327392, format!("$filter: limit must be greater than 0: {shown}")))
            }
            Some(limit) => Ok(limit as usize),
        }
    }
}

impl Special for Filter {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let input = self.input.eval_in(environment)?;
        if input.is_nullish() {
            return Ok(Evaluated::null());
        }
        let Some(ValueRef::Array(elements)) = input.get() else {
            let message = format!("input to $filter must be an array not {}", input.type_name());
            return Err(Error::location(28651, message));
        };
        let limit = self.limit(environment)?;
        let mut results = ArrayBuf::new();
        for element in elements.iter() {
            let frame = environment.bind(Some(element));
            if self.condition.eval_in(&environment.within(&frame))?.is_true() {
                results.push(element);
                if results.len() == limit {
                    break;
                }
            }
        }
        Ok(results.into())
    }

    fn parts(&self) -> Vec<&Expression> {
        [&self.input, &self.condition].into_iter().chain(&self.limit).collect()
    }
}
