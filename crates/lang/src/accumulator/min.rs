//! `$min`: the smallest value by the order of all types; null and missing do not count; null without any.

use arbor_bson::{Doc, Value, ValueRef, compare};

use super::{State, value_bytes};
use crate::Result;
use crate::expression::Evaluated;

#[derive(Debug, Default)]
pub struct Min(Option<Value>);

impl Min {
    pub fn consider(&mut self, value: ValueRef) {
        let counts = !matches!(value, ValueRef::Null | ValueRef::Undefined);
        if counts && self.0.as_ref().is_none_or(|best| compare(value, best.as_ref()).is_lt()) {
            self.0 = Some(value.to_value());
        }
    }

    pub fn best(self) -> Value {
        self.0.unwrap_or(Value::Null)
    }
}

impl State for Min {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if let Some(value) = value.get() {
            self.consider(value);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.best()
    }

    fn size_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, value_bytes)
    }
}
