//! `$last`: the value of the last document; null when it has none.

use arbor_bson::{Doc, Value};

use super::{State, value_bytes};
use crate::Result;
use crate::expression::Evaluated;

#[derive(Debug, Default)]
pub struct Last(Option<Value>);

impl State for Last {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        self.0 = value.into_value();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.0.unwrap_or(Value::Null)
    }

    fn size_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, value_bytes)
    }
}
