//! `$switch`: the value of the first branch whose case is true, or the default.
//!
//! ```text
//! { $switch: { branches: [{ case: false, then: 1 }, { case: 1, then: 2 }] } } => 2
//! { $switch: { branches: [{ case: "$a", then: 1 }], default: 3 } } => 3
//! { $switch: { branches: [{ case: "$a", then: 1 }] } } => error 40066: $switch could not find a matching branch for an input, and no default was specified.
//! { $switch: { branches: [] } } => error 40068: $switch requires at least one branch.
//! { $switch: { branches: 1 } } => error 40061: $switch expected an array for 'branches', found: int
//! { $switch: { branches: [{ case: 1 }] } } => error 40065: $switch requires each branch have a 'then' expression
//! { $switch: 1 } => error 40060: $switch requires an object as an argument, found: int
//! ```

use std::sync::Arc;

use arbor_bson::ValueRef;

use crate::expression::parse::Parser;
use crate::expression::{Environment, Evaluated, Expression, Special, is_true};
use crate::{Error, Result, text};

#[derive(Debug)]
struct Switch {
    branches: Vec<(Expression, Expression)>,
    default: Option<Expression>,
}

pub(super) fn parse(_name: &'static str, value: ValueRef, parser: &mut Parser) -> Result<Expression> {
    let ValueRef::Document(doc) = value else {
        let found = text::type_name(Some(value));
        return Err(Error::location(40060, format!("$switch requires an object as an argument, found: {found}")));
    };
    let (mut branches, mut default) = (Vec::new(), None);
    for (name, value) in doc {
        match name {
            "branches" => branches = parse_branches(value, parser)?,
            "default" => default = Some(parser.expression(value)?),
            _ => return Err(Error::location(40067, format!("$switch found an unknown argument: {name}"))),
        }
    }
    if branches.is_empty() {
        return Err(Error::location(40068, "$switch requires at least one branch."));
    }
    let never = |(case, _): &(Expression, Expression)| matches!(case, Expression::Constant(value) if !value.as_deref().is_some_and(|value| is_true(value.as_ref())));
    if default.is_none() && branches.iter().all(never) {
        let message = "Cannot execute a switch statement where all the cases evaluate to false without a default.";
        return Err(Error::location(40069, message));
    }
    Ok(Expression::Special(Arc::new(Switch { branches, default })))
}

fn parse_branches(value: ValueRef, parser: &mut Parser) -> Result<Vec<(Expression, Expression)>> {
    let ValueRef::Array(list) = value else {
        let found = text::type_name(Some(value));
        return Err(Error::location(40061, format!("$switch expected an array for 'branches', found: {found}")));
    };
    list.iter().map(|branch| parse_branch(branch, parser)).collect()
}

fn parse_branch(value: ValueRef, parser: &mut Parser) -> Result<(Expression, Expression)> {
    let ValueRef::Document(branch) = value else {
        let found = text::type_name(Some(value));
        return Err(Error::location(40062, format!("$switch expected each branch to be an object, found: {found}")));
    };
    let (mut case, mut then) = (None, None);
    for (name, value) in branch {
        match name {
            "case" => case = Some(parser.expression(value)?),
            "then" => then = Some(parser.expression(value)?),
            _ => {
                let message = format!("$switch found an unknown argument to a branch: {name}");
                return Err(Error::location(40063, message));
            }
        }
    }
    let missing =
        |code, what| Error::location(code, format!("$switch requires each branch have a '{what}' expression"));
    Ok((case.ok_or_else(|| missing(40064, "case"))?, then.ok_or_else(|| missing(40065, "then"))?))
}

impl Special for Switch {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        for (case, then) in &self.branches {
            if case.eval_in(environment)?.is_true() {
                return then.eval_in(environment);
            }
        }
        let none = "$switch could not find a matching branch for an input, and no default was specified.";
        self.default.as_ref().ok_or_else(|| Error::location(40066, none))?.eval_in(environment)
    }

    fn parts(&self) -> Vec<&Expression> {
        self.branches.iter().flat_map(|(case, then)| [case, then]).chain(&self.default).collect()
    }
}
