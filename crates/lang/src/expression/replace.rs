//! Shared code of `$replaceOne` and `$replaceAll`.

use std::sync::Arc;

use arbor_bson::ValueRef;

use super::parse::Parser;
use super::{Environment, Evaluated, Expression, Special};
use crate::stop::check_growth;
use crate::{Error, Result, text};

type Function = fn(&str, &str, &str) -> String;

struct Replace {
    operator: &'static str,
    /// input, find, replacement
    arguments: [Expression; 3],
    function: Function,
}

/// Arguments with the codes for a wrong type and for a missing one.
const ARGUMENTS: [(&str, i32, i32); 3] =
    [("input", 51746, 51749), ("find", 51745, 51748), ("replacement", 51744, 51747)];

pub(super) fn parse_replace(
    operator: &'static str,
    value: ValueRef,
    parser: &mut Parser,
    function: Function,
) -> Result<Expression> {
    let ValueRef::Document(doc) = value else {
        let found = text::type_name(Some(value));
        return Err(Error::location(51751, format!("{operator} requires an object as an argument, found: {found}")));
    };
    if let Some((unknown, _)) = doc.iter().find(|(name, _)| ARGUMENTS.iter().all(|(known, ..)| known != name)) {
        return Err(Error::location(51750, format!("{operator} found an unknown argument: {unknown}")));
    }
    let mut argument = |(name, _, missing): (&str, i32, i32)| match doc.get(name) {
        Some(value) => parser.expression(value),
        None => Err(Error::location(missing, format!("{operator} requires '{name}' to be specified"))),
    };
    let [input, find, replacement] = ARGUMENTS;
    let arguments = [argument(input)?, argument(find)?, argument(replacement)?];
    Ok(Expression::Special(Arc::new(Replace { operator, arguments, function })))
}

impl std::fmt::Debug for Replace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.operator, self.arguments)
    }
}

impl Special for Replace {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let mut values = Vec::with_capacity(3);
        for (argument, (name, wrong, _)) in self.arguments.iter().zip(ARGUMENTS) {
            let value = argument.eval_in(environment)?;
            if !value.is_nullish() && !matches!(value.get(), Some(ValueRef::String(_))) {
                let shown = text::shell(value.or_null());
                let message = format!("{} requires that '{name}' be a string, found: {shown}", self.operator);
                return Err(Error::location(wrong, message));
            }
            values.push(value);
        }
        let texts: Vec<&str> = values
            .iter()
            .filter_map(|value| match value.get() {
                Some(ValueRef::String(text)) => Some(text),
                _ => None,
            })
            .collect();
        let [input, find, replacement] = texts.as_slice() else { return Ok(Evaluated::null()) };
        // No more places than there are, and no text longer than all of them make it.
        let places = input.len() / find.len().max(1) + 1;
        if places.saturating_mul(replacement.len()) > input.len() {
            let found = if find.is_empty() { places } else { input.matches(find).count() };
            check_growth(self.operator, input.len() + found.saturating_mul(replacement.len()))?;
        }
        Ok((self.function)(input, find, replacement).into())
    }

    fn parts(&self) -> Vec<&Expression> {
        self.arguments.iter().collect()
    }
}
