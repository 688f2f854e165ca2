//! Operators that are functions of their evaluated arguments.

use std::sync::Arc;

use super::{Environment, Evaluated, Expression, Parser};
use crate::stop::check_growth;
use crate::{Collation, Error, Result};
use arbor_bson::ValueRef;

pub(super) type Unary = for<'a> fn(Evaluated<'a>) -> Result<Evaluated<'a>>;
pub(super) type Binary = for<'a> fn(Evaluated<'a>, Evaluated<'a>) -> Result<Evaluated<'a>>;
pub(super) type Nary = for<'a> fn(Vec<Evaluated<'a>>) -> Result<Evaluated<'a>>;
/// Forms of operators that compare strings.
pub(super) type BinaryBy = for<'a> fn(&Collation, Evaluated<'a>, Evaluated<'a>) -> Result<Evaluated<'a>>;
pub(super) type NaryBy = for<'a> fn(&Collation, Vec<Evaluated<'a>>) -> Result<Evaluated<'a>>;
pub(super) type ParseSpecial = fn(&'static str, ValueRef, &mut Parser) -> Result<Expression>;

/// Signature of an operator of the table, by which it is parsed and evaluated.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Unary(Unary),
    /// A conversion to a type, which refuses other numbers of arguments in its own words.
    Conversion(Unary),
    Binary(Binary),
    /// Minimum and maximum number of arguments.
    Nary(usize, usize, Nary),
    BinaryBy(BinaryBy),
    NaryBy(usize, usize, NaryBy),
    Special(ParseSpecial),
}

/// Any number of arguments.
pub(super) const ANY: usize = usize::MAX;

/// An operator with its arguments.
pub struct Call {
    name: &'static str,
    function: Function,
}

enum Function {
    Unary(Unary, [Expression; 1]),
    Binary(Binary, [Expression; 2]),
    Nary(Nary, Vec<Expression>),
    BinaryBy(BinaryBy, Collation, [Expression; 2]),
    NaryBy(NaryBy, Collation, Vec<Expression>),
}

impl Form {
    /// An operator of one argument that was parsed already.
    pub(super) fn call(name: &'static str, function: Unary, argument: Expression, parser: &Parser) -> Expression {
        let function = Function::Unary(function, [argument]);
        Expression::Call(Arc::new(Call { name, function })).fold(parser.context)
    }

    pub(super) fn parse(self, name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
        let function = match self {
            Form::Special(parse) => return Ok(parse(name, value, parser)?.fold(parser.context)),
            Form::Unary(function) => Function::Unary(function, exactly(name, parser.arguments(value)?)?),
            Form::Conversion(function) => {
                let arguments = parser.arguments(value)?;
                if arguments.len() != 1 {
                    let message = format!("{name} requires a single argument, got {}", arguments.len());
                    return Err(Error::location(50723, message));
                }
                Function::Unary(function, exactly(name, arguments)?)
            }
            Form::Binary(function) => Function::Binary(function, exactly(name, parser.arguments(value)?)?),
            Form::Nary(least, most, function) => {
                let arguments = parser.arguments(value)?;
                check_count(name, least, most, arguments.len())?;
                Function::Nary(function, arguments)
            }
            Form::BinaryBy(function) => {
                let collation = parser.context.collation.clone();
                Function::BinaryBy(function, collation, exactly(name, parser.arguments(value)?)?)
            }
            Form::NaryBy(least, most, function) => {
                let arguments = parser.arguments(value)?;
                check_count(name, least, most, arguments.len())?;
                Function::NaryBy(function, parser.context.collation.clone(), arguments)
            }
        };
        Ok(Expression::Call(Arc::new(Call { name, function })).fold(parser.context))
    }
}

fn exactly<const N: usize>(name: &str, arguments: Vec<Expression>) -> Result<[Expression; N]> {
    check_count(name, N, N, arguments.len())?;
    arguments.try_into().map_err(|_| Error::location(16020, format!("Expression {name} takes exactly {N} arguments.")))
}

fn check_count(name: &str, least: usize, most: usize, count: usize) -> Result<()> {
    if (least..=most).contains(&count) {
        return Ok(());
    }
    if least == most {
        let message = format!("Expression {name} takes exactly {least} arguments. {count} were passed in.");
        return Err(Error::location(16020, message));
    }
    let message =
        format!("Expression {name} takes at least {least} arguments, and at most {most}, but {count} were passed in.");
    Err(Error::location(28667, message))
}

impl Call {
    pub fn arguments(&self) -> &[Expression] {
        match &self.function {
            Function::Unary(_, arguments) => arguments,
            Function::Binary(_, arguments) | Function::BinaryBy(_, _, arguments) => arguments,
            Function::Nary(_, arguments) | Function::NaryBy(_, _, arguments) => arguments,
        }
    }

    pub fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        match &self.function {
            Function::Unary(function, [argument]) => function(argument.eval_in(environment)?),
            Function::Binary(function, [a, b]) => function(a.eval_in(environment)?, b.eval_in(environment)?),
            Function::Nary(function, arguments) => function(all(arguments, environment)?),
            Function::BinaryBy(function, collation, [a, b]) => {
                function(collation, a.eval_in(environment)?, b.eval_in(environment)?)
            }
            Function::NaryBy(function, collation, arguments) => function(collation, all(arguments, environment)?),
        }
    }
}

/// All arguments, which together are bounded as one value is.
pub(super) fn all<'a>(arguments: &'a [Expression], environment: &Environment<'a>) -> Result<Vec<Evaluated<'a>>> {
    let (mut values, mut bytes) = (Vec::with_capacity(arguments.len()), 0);
    for argument in arguments {
        let value = argument.eval_in(environment)?;
        bytes += value.made_bytes();
        check_growth("an expression", bytes)?;
        values.push(value);
    }
    Ok(values)
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.name, self.arguments())
    }
}
