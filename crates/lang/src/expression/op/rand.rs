//! `$rand`: a random double from 0 (included) to 1.
//!
//! ```text
//! { $lt: [{ $rand: {} }, 1] } => true
//! { $gte: [{ $rand: {} }, 0] } => true
//! { $rand: 1 } => error 10065: invalid parameter: expected an object ($rand)
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::{Error, Result};

#[derive(Debug)]
struct Rand;

pub(super) fn parse(_name: &'static str, value: ValueRef, _parser: &mut Parser) -> Result<Expression> {
    match value {
        ValueRef::Document(doc) if doc.is_empty() => Ok(Expression::Special(Arc::new(Rand))),
        ValueRef::Array(list) if list.is_empty() => Ok(Expression::Special(Arc::new(Rand))),
        ValueRef::Document(_) | ValueRef::Array(_) => {
            Err(Error::location(3040501, "$rand does not currently accept arguments"))
        }
        _ => Err(Error::location(10065, "invalid parameter: expected an object ($rand)")),
    }
}

impl Special for Rand {
    fn eval<'a>(&'a self, _environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        Ok(rand::random::<f64>().into())
    }

    fn parts(&self) -> Vec<&Expression> {
        Vec::new()
    }

    fn is_pure(&self) -> bool {
        false
    }
}
