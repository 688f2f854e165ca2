//! `{ $replaceRoot: { newRoot: <expression> } }`, `{ $replaceWith: <expression> }`.

use arbor_bson::{DocBuf, Value, ValueRef};

use super::map::Map;
use crate::expression::{Environment, Evaluated};
use crate::{Context, Error, Expression, Input, Result, text};

/// The expression that gives the new document.
#[derive(Clone, Debug)]
pub struct Replace {
    expression: Expression,
    /// Name of the expression in errors.
    called: &'static str,
}

pub(super) fn parse_root(spec: ValueRef, context: &Context) -> Result<Map> {
    let ValueRef::Document(doc) = spec else {
        let found = text::type_name(Some(spec));
        let message = format!("expected an object as specification for $replaceRoot stage, got {found}");
        return Err(Error::location(40229, message));
    };
    if let Some((unknown, _)) = doc.iter().find(|(name, _)| *name != "newRoot") {
        let message = format!("BSON field '$replaceRoot.{unknown}' is an unknown field.");
        return Err(Error::location(40415, message));
    }
    let new_root = doc.get("newRoot").ok_or_else(|| {
        let message = "BSON field '$replaceRoot.newRoot' is missing but a required field";
        Error::location(40414, message)
    })?;
    let expression = Expression::parse(new_root, context)?;
    Ok(Map::replace("$replaceRoot", Replace { expression, called: "'newRoot' expression" }))
}

pub(super) fn parse_with(spec: ValueRef, context: &Context) -> Result<Map> {
    let expression = Expression::parse(spec, context)?;
    Ok(Map::replace("$replaceWith", Replace { expression, called: "'replacement document'" }))
}

impl Replace {
    pub fn apply(&self, input: Input) -> Result<DocBuf> {
        match self.expression.eval_in(&Environment::new(input))? {
            Evaluated::Borrowed(ValueRef::Document(new)) => Ok(new.to_buf()),
            Evaluated::Owned(Value::Document(new)) => Ok(new),
            other => {
                let shown = other.get().map_or("MISSING".to_owned(), text::shell);
                let (called, found, input) =
                    (self.called, other.type_name(), text::shell(ValueRef::Document(input.doc)));
                let message = format!(
                    "{called} must evaluate to an object, but resulting value was: {shown}. Type of resulting value: \
                     '{found}'. Input document: {input}"
                );
                Err(Error::location(40228, message))
            }
        }
    }
}
