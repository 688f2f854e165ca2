//! `$and`: whether all arguments are true; the first that is not ends it. Without arguments true.
//!
//! ```text
//! { $and: [1, "x", true] } => true
//! { $and: [1, 0, { $divide: [1, 0] }] } => false
//! { $and: [] } => true
//! { $and: "$a" } => false
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};

#[derive(Debug)]
struct And(Vec<Expression>);

pub(super) fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    Ok(Expression::Special(Arc::new(And(parser.arguments(value)?))))
}

impl Special for And {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        for part in &self.0 {
            if !part.eval_in(environment)?.is_true() {
                return Ok(false.into());
            }
        }
        Ok(true.into())
    }

    fn parts(&self) -> Vec<&Expression> {
        self.0.iter().collect()
    }
}
