//! Aggregation expressions, compiled once per command and evaluated per document.

pub mod variable;

use arbor_bson::{Doc, Value, ValueRef};

use crate::{Context, Error, Result};

/// A compiled expression. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Expression {}

impl Expression {
    pub fn parse(_value: ValueRef, _context: &Context) -> Result<Expression> {
        Err(Error::not_implemented("an expression"))
    }

    /// The value for this document; `None` is "missing" (as `$$REMOVE` or the path of an absent field).
    pub fn eval(&self, _root: Doc) -> Result<Option<Value>> {
        Err(Error::not_implemented("an expression"))
    }

    /// The value as a condition.
    pub fn eval_bool(&self, _root: Doc) -> Result<bool> {
        Err(Error::not_implemented("an expression"))
    }

    /// Whether any part of it looks at the document.
    pub fn reads_document(&self) -> bool {
        true
    }
}
