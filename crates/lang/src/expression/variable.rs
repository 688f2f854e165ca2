//! `$$variables`: names, and the ones the system defines.

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};
use hashbrown::HashMap;

use super::Expression;
use crate::{Context, Error, Result};

/// Checks a name that a client gives to a variable of its own.
pub fn check_user_name(name: &str) -> Result<()> {
    check(name, |first| first.is_ascii_lowercase() || !first.is_ascii(), "user variable name")
}

/// Checks a name that a client uses.
pub fn check_name(name: &str) -> Result<()> {
    check(name, |first| first.is_ascii_alphabetic() || !first.is_ascii(), "variable name")
}

fn check(name: &str, first_is_right: impl Fn(char) -> bool, what: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Error::failed_to_parse("empty variable names are not allowed"));
    };
    if !first_is_right(first) {
        return Err(Error::failed_to_parse(format!("'{name}' starts with an invalid character for a {what}")));
    }
    match name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_') {
        Some(bad) => {
            let message = format!("'{name}' contains an invalid character for a variable name: '{bad}'");
            Err(Error::failed_to_parse(message))
        }
        None => Ok(()),
    }
}

/// Returns the variable name given as `as`, `this` without one.
pub fn name_of<'v>(given: Option<ValueRef<'v>>) -> Result<&'v str> {
    match given {
        None => Ok("this"),
        Some(ValueRef::String("CURRENT")) => Ok("CURRENT"),
        Some(ValueRef::String(name)) => check_user_name(name).map(|()| name),
        Some(_) => Err(Error::failed_to_parse("the name of a variable must be a string")),
    }
}

/// A variable that is not bound by the expression: the system's and those of the command's `let`.
pub fn outer(name: &str, context: &Context) -> Result<Expression> {
    match name {
        "ROOT" => return Ok(Expression::Root),
        "REMOVE" => return Ok(Expression::Constant(None)),
        "NOW" | "CLUSTER_TIME" if context.without_times => {
            return Err(Error::location(51144, format!("Builtin variable '$${name}' is not available")));
        }
        "NOW" => return Ok(Expression::constant(Value::DateTime(context.now))),
        "KEEP" | "PRUNE" | "DESCEND" => return Ok(Expression::constant(name.to_lowercase())),
        "CLUSTER_TIME" => {
            let missing = || Error::location(51144, "Builtin variable '$$CLUSTER_TIME' is not available");
            return Ok(Expression::constant(context.cluster_time.ok_or_else(missing)?));
        }
        _ => {}
    }
    match context.variables.get(name) {
        Some(value) => Ok(Expression::Constant(value.clone())),
        None => Err(Error::location(17276, format!("Use of undefined variable: {name}"))),
    }
}

/// The variables of a command's `let`, by name. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct Variables(Arc<HashMap<Box<str>, Option<Arc<Value>>>>);

impl Variables {
    /// Adds a variable; it hides one of the same name.
    pub fn set(&mut self, name: &str, value: Value) {
        self.set_or_missing(name, Some(value));
    }

    /// Adds a variable whose value may be "missing".
    pub fn set_or_missing(&mut self, name: &str, value: Option<Value>) {
        Arc::make_mut(&mut self.0).insert(name.into(), value.map(Arc::new));
    }

    /// Returns all of them; None: it is "missing".
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&Value>)> {
        self.0.iter().map(|(name, value)| (&**name, value.as_deref()))
    }

    fn get(&self, name: &str) -> Option<&Option<Arc<Value>>> {
        self.0.get(name)
    }
}
