//! `$reduce`: folds an array into one value; `$$value` is what was folded so far, `$$this` the element.
//!
//! ```text
//! { $reduce: { input: [1, 2, 3], initialValue: 0, in: { $add: ["$$value", "$$this"] } } } => 6
//! { $reduce: { input: "$a", initialValue: [], in: { $concatArrays: ["$$value", "$$this"] } } } on { a: [[1], [2]] } => [1, 2]
//! { $reduce: { input: "$a", initialValue: 0, in: 1 } } => null
//! { $reduce: { input: 1, initialValue: 0, in: 1 } } => error 40080: $reduce requires that 'input' be an array, found: 1
//! { $reduce: { initialValue: 0, in: 1 } } => error 40077: $reduce requires 'input' to be specified
//! { $reduce: { input: [], in: 1 } } => error 40078: $reduce requires 'initialValue' to be specified
//! { $reduce: { input: [], initialValue: 0 } } => error 40079: $reduce requires 'in' to be specified
//! { $reduce: 1 } => error 40075: $reduce requires an object as an argument, found: int
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::stop::tick;
use crate::{Error, Result, text};

#[derive(Debug)]
struct Reduce {
    input: Expression,
    initial: Expression,
    body: Expression,
}

pub(super) fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let ValueRef::Document(doc) = value else {
        let found = text::type_name(Some(value));
        return Err(Error::location(40075, format!("$reduce requires an object as an argument, found: {found}")));
    };
    let (mut input, mut initial, mut body) = (None, None, None);
    for (name, value) in doc {
        match name {
            "input" => input = Some(parser.expression(value)?),
            "initialValue" => initial = Some(parser.expression(value)?),
            "in" => body = Some(parser.with_variables(&["this", "value"], value)?),
            _ => return Err(Error::location(40076, format!("$reduce found an unknown argument: {name}"))),
        }
    }
    let missing = |code, what| Error::location(code, format!("$reduce requires '{what}' to be specified"));
    Ok(Expression::Special(Arc::new(Reduce {
        input: input.ok_or_else(|| missing(40077, "input"))?,
        initial: initial.ok_or_else(|| missing(40078, "initialValue"))?,
        body: body.ok_or_else(|| missing(40079, "in"))?,
    })))
}

impl Special for Reduce {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let input = self.input.eval_in(environment)?;
        if input.is_nullish() {
            return Ok(Evaluated::null());
        }
        let Some(ValueRef::Array(elements)) = input.get() else {
            let shown = text::shell(input.or_null());
            return Err(Error::location(40080, format!("$reduce requires that 'input' be an array, found: {shown}")));
        };
        let mut folded = self.initial.eval_in(environment)?.into_value();
        for element in elements.iter() {
            tick()?;
            let this = environment.bind(Some(element));
            let inner = environment.within(&this);
            let value = inner.bind(folded.as_ref().map(|value| value.as_ref()));
            folded = self.body.eval_in(&inner.within(&value))?.into_value();
        }
        Ok(folded.map_or(Evaluated::Missing, Evaluated::Owned))
    }

    fn parts(&self) -> Vec<&Expression> {
        vec![&self.input, &self.initial, &self.body]
    }
}
