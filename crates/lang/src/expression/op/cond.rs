//! `$cond`: one of two values, by a condition.
//!
//! ```text
//! { $cond: [true, 1, 2] } => 1
//! { $cond: { if: 0, then: { $divide: [1, 0] }, else: 2 } } => 2
//! { $cond: { if: 0, then: 1 } } => error 17082: Missing 'else' parameter to $cond
//! { $cond: { if: 0, then: 1, other: 1 } } => error 17083: Unrecognized parameter to $cond: other
//! { $cond: [1, 2] } => error 16020: Expression $cond takes exactly 3 arguments. 2 were passed in.
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::expression::arguments::Named;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::{Error, Result};

#[derive(Debug)]
struct Cond {
    condition: Expression,
    then: Expression,
    otherwise: Expression,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let [condition, then, otherwise] = match value {
        ValueRef::Document(_) => {
            let named = Named::read(name, value, &["if", "then", "else"], 17083, 17083)?;
            let parts = [named.require("if", 17080)?, named.require("then", 17081)?, named.require("else", 17082)?];
            [parser.expression(parts[0])?, parser.expression(parts[1])?, parser.expression(parts[2])?]
        }
        _ => {
            let arguments = parser.arguments(value)?;
            let count = arguments.len();
            let message = || format!("Expression $cond takes exactly 3 arguments. {count} were passed in.");
            <[Expression; 3]>::try_from(arguments).map_err(|_| Error::location(16020, message()))?
        }
    };
    Ok(Expression::Special(Arc::new(Cond { condition, then, otherwise })))
}

impl Special for Cond {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let holds = self.condition.eval_in(environment)?.is_true();
        if holds { self.then.eval_in(environment) } else { self.otherwise.eval_in(environment) }
    }

    fn parts(&self) -> Vec<&Expression> {
        vec![&self.condition, &self.then, &self.otherwise]
    }
}
