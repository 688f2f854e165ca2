//! `$firstN`, `$lastN`, `$minN`, `$maxN` over the elements of an array.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, ValueRef};

use super::parse::Parser;
use super::{Environment, Evaluated, Expression, Special};
use crate::{Collation, Error, Result, number, text};

/// Reduces the elements to the `n` chosen ones.
type Choose = fn(&mut Vec<ValueRef<'_>>, usize, &Collation) -> Result<()>;

struct NElements {
    input: Expression,
    n: Expression,
    choose: Choose,
    collation: Collation,
}

pub(super) fn parse(name: &'static str, value: ValueRef, parser: &mut Parser, choose: Choose) -> Result<Expression> {
    let ValueRef::Document(doc) = value else {
        let message = format!("specification must be an object; found {name}: {}", text::shell(value));
        return Err(Error::location(5787900, message));
    };
    if let Some((unknown, _)) = doc.iter().find(|(field, _)| !matches!(*field, "input" | "n")) {
        return Err(Error::location(5787901, format!("Unknown argument for 'n' operator: {unknown}")));
    }
    let n = doc.get("n").ok_or_else(|| Error::location(5787906, "Missing value for 'n'"))?;
    let input = doc.get("input").ok_or_else(|| Error::location(5787907, "Missing value for 'input'"))?;
    let (input, n) = (parser.expression(input)?, parser.expression(n)?);
    Ok(Expression::Special(Arc::new(NElements { input, n, choose, collation: parser.context.collation.clone() })))
}

impl std::fmt::Debug for NElements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NElements({:?}, {:?})", self.input, self.n)
    }
}

impl Special for NElements {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let n = self.n.eval_in(environment)?;
        let shown = text::shell(n.or_null());
        let n = match number::exact_i64(n.or_null()) {
            Some(n) if n > 0 => n as usize,
            Some(n) => return Err(Error::location(5787908, format!("'n' must be greater than 0, found {n}"))),
            None => {
                let message = format!("Value for 'n' must be of integral type, but found {shown}");
                let code = if number::is_number(n.or_null()) { 5787903 } else { 5787902 };
                return Err(Error::location(code, message));
            }
        };
        let input = self.input.eval_in(environment)?;
        let Some(ValueRef::Array(elements)) = input.get() else {
            return Err(Error::location(5788200, "Input must be an array"));
        };
        let mut chosen: Vec<ValueRef> = elements.iter().collect();
        (self.choose)(&mut chosen, n, &self.collation)?;
        Ok(chosen.into_iter().collect::<ArrayBuf>().into())
    }

    fn parts(&self) -> Vec<&Expression> {
        vec![&self.input, &self.n]
    }
}
