//! `$ifNull`: the first argument that is not null, undefined or missing; the last one when there is none.
//!
//! ```text
//! { $ifNull: ["$a", 5] } => 5
//! { $ifNull: ["$a", 5] } on { a: 0 } => 0
//! { $ifNull: ["$a", null, "$b", 7] } => 7
//! { $ifNull: [1] } => error 1257300: $ifNull needs at least two arguments, had: 1
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::{Error, Result};

#[derive(Debug)]
struct IfNull(Vec<Expression>);

pub(super) fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let parts = parser.arguments(value)?;
    if parts.len() < 2 {
        let message = format!("$ifNull needs at least two arguments, had: {}", parts.len());
        return Err(Error::location(1257300, message));
    }
    Ok(Expression::Special(Arc::new(IfNull(parts))))
}

impl Special for IfNull {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let mut last = Evaluated::Missing;
        for part in &self.0 {
            last = part.eval_in(environment)?;
            if !last.is_nullish() {
                break;
            }
        }
        Ok(last)
    }

    fn parts(&self) -> Vec<&Expression> {
        self.0.iter().collect()
    }
}
