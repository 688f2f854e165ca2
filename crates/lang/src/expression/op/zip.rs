//! `$zip`: arrays turned into an array of rows.
//!
//! ```text
//! { $zip: { inputs: [["a", "b"], [1, 2, 3]] } } => [["a", 1], ["b", 2]]
//! { $zip: { inputs: [["a"], [1, 2]], useLongestLength: true } } => [["a", 1], [null, 2]]
//! { $zip: { inputs: [["a"], [1, 2]], useLongestLength: true, defaults: ["z", 0] } } => [["a", 1], ["z", 2]]
//! { $zip: { inputs: ["$x", [1]] } } => null
//! { $zip: { inputs: [1] } } => error 34468: $zip found a non-array expression in input: 1
//! { $zip: { inputs: [] } } => error 34465: $zip requires at least one input array
//! { $zip: { inputs: 1 } } => error 34461: inputs must be an array of expressions, found int
//! { $zip: { inputs: [[1]], defaults: [1] } } => error 34466: cannot specify defaults unless useLongestLength is true
//! { $zip: { inputs: [[1]], x: 1 } } => error 34464: $zip found an unknown argument: x
//! { $zip: 1 } => error 34460: $zip only supports an object as an argument, found int
//! ```

use std::sync::Arc;

use arbor_bson::{ArrayBuf, ValueRef};

use crate::expression::form::all;
use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special};
use crate::stop::check_growth;
use crate::{Error, Result, text};

#[derive(Debug)]
struct Zip {
    inputs: Vec<Expression>,
    longest: bool,
    defaults: Vec<Expression>,
}

pub(super) fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let found = |value| text::type_name(Some(value));
    let ValueRef::Document(doc) = value else {
        let message = format!("$zip only supports an object as an argument, found {}", found(value));
        return Err(Error::location(34460, message));
    };
    let (mut inputs, mut longest, mut defaults) = (Vec::new(), false, Vec::new());
    for (name, value) in doc {
        match (name, value) {
            ("inputs", ValueRef::Array(_)) => inputs = parser.arguments(value)?,
            ("inputs", _) => {
                let message = format!("inputs must be an array of expressions, found {}", found(value));
                return Err(Error::location(34461, message));
            }
            ("defaults", ValueRef::Array(_)) => defaults = parser.arguments(value)?,
            ("defaults", _) => {
                let message = format!("defaults must be an array of expressions, found {}", found(value));
                return Err(Error::location(34462, message));
            }
            ("useLongestLength", ValueRef::Bool(value)) => longest = value,
            ("useLongestLength", _) => {
                let message = format!("useLongestLength must be a bool, found {}", found(value));
                return Err(Error::location(34463, message));
            }
            _ => return Err(Error::location(34464, format!("$zip found an unknown argument: {name}"))),
        }
    }
    if inputs.is_empty() {
        return Err(Error::location(34465, "$zip requires at least one input array"));
    }
    if !defaults.is_empty() && !longest {
        return Err(Error::location(34466, "cannot specify defaults unless useLongestLength is true"));
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        return Err(Error::location(34467, "defaults and inputs must have the same length"));
    }
    Ok(Expression::Special(Arc::new(Zip { inputs, longest, defaults })))
}

impl Special for Zip {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let inputs = all(&self.inputs, environment)?;
        if inputs.iter().any(Evaluated::is_nullish) {
            return Ok(Evaluated::null());
        }
        let (mut columns, mut lengths) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
        for input in &inputs {
            let ValueRef::Array(elements) = input.or_null() else {
                let shown = text::shell(input.or_null());
                return Err(Error::location(34468, format!("$zip found a non-array expression in input: {shown}")));
            };
            lengths.push(elements.iter().count());
            columns.push(elements.iter());
        }
        let lengths = lengths.into_iter();
        let rows = if self.longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
        let defaults = self.defaults.iter().map(|value| value.eval_in(environment)).collect::<Result<Vec<_>>>()?;
        let mut zipped = ArrayBuf::new();
        for _ in 0..rows {
            let cells = columns.iter_mut().enumerate().map(|(column, elements)| {
                let default = || defaults.get(column).map_or(ValueRef::Null, Evaluated::or_null);
                elements.next().unwrap_or_else(default)
            });
            zipped.push(&cells.collect::<ArrayBuf>());
            check_growth("$zip", zipped.as_array().as_bytes().len())?;
        }
        Ok(zipped.into())
    }

    fn parts(&self) -> Vec<&Expression> {
        self.inputs.iter().chain(&self.defaults).collect()
    }
}
