//! `$last`: the value of the last document; null when it has none.

use arbor_bson::{Doc, Value, ValueRef};

use super::{State, elements, optional, value_bytes};
use crate::Result;
use crate::expression::Evaluated;

#[derive(Debug, Default)]
pub(super) struct Last(Option<Value>);

impl State for Last {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        self.0 = Some(value.into_value().unwrap_or(Value::Null));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.0.unwrap_or(Value::Null)
    }

    fn partial(&self) -> Value {
        optional(&self.0)
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        if let Some(last) = elements(partial).next() {
            self.0 = Some(last.to_value());
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, value_bytes)
    }
}
