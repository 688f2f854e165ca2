//! `$or`: whether one argument is true; the first that is ends it. Without arguments false.
//!
//! ```text
//! { $or: [0, 1, { $divide: [1, 0] }] } => true
//! { $or: [0, null, "$a"] } => false
//! { $or: [] } => false
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::Result;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};

#[derive(Debug)]
struct Or(Vec<Expression>);

pub(super) fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    Ok(Expression::Special(Arc::new(Or(parser.arguments(value)?))))
}

impl Special for Or {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        for part in &self.0 {
            if part.eval_in(environment)?.is_true() {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }

    fn parts(&self) -> Vec<&Expression> {
        self.0.iter().collect()
    }
}
