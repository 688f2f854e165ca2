//! `$push`: all values in order; missing ones are left out, null is kept.

use arbor_bson::{ArrayBuf, Doc, Value, ValueRef};

use super::{State, elements};
use crate::Result;
use crate::expression::Evaluated;

#[derive(Debug, Default)]
pub(super) struct Push(ArrayBuf);

impl State for Push {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        if let Some(value) = value.get() {
            self.0.push(value);
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        Value::Array(self.0)
    }

    fn partial(&self) -> Value {
        Value::Array(self.0.as_array().to_buf())
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        for value in elements(partial) {
            self.0.push(value);
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.0.as_array().as_bytes().len()
    }
}
