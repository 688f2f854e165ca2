//! `$first`: the value of the first document; null when it has none.

use arbor_bson::{Doc, Value, ValueRef};

use super::{State, elements, optional, value_bytes};
use crate::Result;
use crate::expression::Evaluated;

#[derive(Debug, Default)]
pub(super) struct First(Option<Value>);

impl State for First {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if self.0.is_none() {
            self.0 = Some(value.into_value().unwrap_or(Value::Null));
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.0.unwrap_or(Value::Null)
    }

    fn partial(&self) -> Value {
        optional(&self.0)
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        if self.0.is_none() {
            self.0 = elements(partial).next().map(ValueRef::to_value);
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, value_bytes)
    }
}
