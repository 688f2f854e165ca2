//! From BSON to the tree of an expression.

use arbor_bson::{Doc, Value, ValueRef};
use hashbrown::HashMap;

use super::evaluated::check_text;
use super::{Expression, field, op, variable};
use crate::by_name::ByName;
use crate::stop::tick;
use crate::{Code, Context, Error, Path, Result, field_path, text};

pub struct Parser<'c> {
    pub context: &'c Context,
    /// Number of variables bound around the expression being parsed.
    bound: usize,
    /// By name: the number of variables bound outside of each binding of it, the innermost binding last.
    scope: HashMap<Box<str>, Vec<usize>>,
    depth: usize,
}

impl<'c> Parser<'c> {
    pub fn new(context: &'c Context) -> Parser<'c> {
        Parser { context, bound: 0, scope: HashMap::new(), depth: 0 }
    }

    pub fn expression(&mut self, value: ValueRef) -> Result<Expression> {
        tick()?;
        self.depth += 1;
        if self.depth > self.context.limits.depth_max {
            return Err(Error::new(Code::OVERFLOW, "expression is nested too deeply"));
        }
        let expression = match value {
            ValueRef::String(text) if text.starts_with('$') => self.path(text)?,
            ValueRef::Document(doc) => self.document(doc)?,
            ValueRef::Array(array) => {
                let items = array.iter().map(|item| self.expression(item)).collect::<Result<Vec<_>>>()?;
                Expression::Array(items.into()).fold(self.context)
            }
            other => {
                if let ValueRef::String(text) = other {
                    check_text(text)?;
                }
                Expression::constant(other.to_value())
            }
        };
        self.depth -= 1;
        Ok(expression)
    }

    /// Arguments of an operator: an array of them, or the only one.
    pub fn arguments(&mut self, value: ValueRef) -> Result<Vec<Expression>> {
        match value {
            ValueRef::Array(list) => list.iter().map(|item| self.expression(item)).collect(),
            single => Ok(vec![self.expression(single)?]),
        }
    }

    /// Parses with one more variable in scope.
    pub fn with_variable(&mut self, name: &str, value: ValueRef) -> Result<Expression> {
        self.with_variables(&[name], value)
    }

    /// Parses with more variables in scope, to be bound in this order.
    pub fn with_variables(&mut self, names: &[&str], value: ValueRef) -> Result<Expression> {
        for name in names {
            self.scope.entry_ref(*name).or_default().push(self.bound);
            self.bound += 1;
        }
        let expression = self.expression(value);
        for name in names {
            self.scope.get_mut(*name).and_then(Vec::pop);
            self.bound -= 1;
        }
        expression
    }

    fn path(&mut self, text: &str) -> Result<Expression> {
        let Some(name) = text.strip_prefix("$$") else {
            let path = text.strip_prefix('$').unwrap_or(text);
            if path.is_empty() {
                return Err(Error::location(16872, "'$' by itself is not a valid FieldPath"));
            }
            let path = field_path::parse(path)?;
            return Ok(match self.bound("CURRENT") {
                Some(outwards) => Expression::Variable { outwards, path: Some(path) },
                None => Expression::Field(path),
            });
        };
        let (name, rest) = name.split_once('.').map_or((name, None), |(name, rest)| (name, Some(rest)));
        variable::check_name(name)?;
        if rest == Some("") {
            return Err(Error::location(40353, "FieldPath must not end with a '.'."));
        }
        let path = rest.map(field_path::parse).transpose()?;
        if let Some(outwards) = self.bound(name) {
            return Ok(Expression::Variable { outwards, path });
        }
        let name = if name == "CURRENT" { "ROOT" } else { name };
        Ok(within(variable::outer(name, self.context)?, path))
    }

    /// Returns how many variables outwards this name is bound.
    fn bound(&self, name: &str) -> Option<usize> {
        let outside = self.scope.get(name)?.last()?;
        Some(self.bound - 1 - outside)
    }

    fn document(&mut self, doc: Doc) -> Result<Expression> {
        match doc.first() {
            Some((name, value)) if name.starts_with('$') => {
                if doc.iter().nth(1).is_some() {
                    let shown = text::shell(ValueRef::Document(doc));
                    let message = format!(
                        "an expression specification must contain exactly one field, the name of the expression. Found {} fields in {shown}",
                        doc.iter().count()
                    );
                    return Err(Error::location(15983, message));
                }
                self.operator(name, value)
            }
            _ => self.object(doc),
        }
    }

    fn operator(&mut self, name: &str, value: ValueRef) -> Result<Expression> {
        match op::find(name) {
            Some((name, form)) => form.parse(name, value, self),
            None => Err(Error::new(Code::INVALID_PIPELINE_OPERATOR, format!("Unrecognized expression '{name}'"))),
        }
    }

    fn object(&mut self, doc: Doc) -> Result<Expression> {
        let mut fields = ByName::default();
        for (name, value) in doc {
            field_path::check_name(name)?;
            if name.contains('.') {
                let message = "FieldPath field names may not contain '.'. Consider using $getField or $setField.";
                return Err(Error::location(16412, message));
            }
            if fields.get(name).is_some() {
                let shown = text::shell(ValueRef::Document(doc));
                return Err(Error::location(
                    16406,
                    format!("duplicate field name specified in object literal: {shown}"),
                ));
            }
            fields.add(name, self.expression(value)?);
        }
        Ok(Expression::Document(fields.into_entries().into()).fold(self.context))
    }
}

/// A path into what is known already.
fn within(expression: Expression, path: Option<Path>) -> Expression {
    match (expression, path) {
        (expression, None) => expression,
        (Expression::Root, Some(path)) => Expression::Field(path),
        (Expression::Constant(Some(value)), Some(path)) => {
            Expression::of_value(field::resolve(Value::as_ref(&value), path.components()).into_value())
        }
        (_, Some(_)) => Expression::Constant(None),
    }
}
