//! `$concatArrays` and `$setUnion`: `$push` and `$addToSet` of the elements of arrays.

use arbor_bson::{Doc, Value, ValueRef};

use super::State;
use crate::expression::Evaluated;
use crate::stop::tick;
use crate::{Error, Result};

/// A state that is fed with the elements of arrays.
#[derive(Debug)]
pub(super) struct ArrayElements {
    operator: &'static str,
    inner: Box<dyn State>,
}

impl ArrayElements {
    pub(super) fn new(operator: &'static str, inner: Box<dyn State>) -> ArrayElements {
        ArrayElements { operator, inner }
    }
}

impl State for ArrayElements {
    fn add(&mut self, value: Evaluated, root: Doc) -> Result<()> {
        let array = match value.get() {
            None => return Ok(()),
            Some(ValueRef::Array(array)) => array,
            Some(_) => {
                let (operator, found) = (self.operator, value.type_name());
                return Err(Error::type_mismatch(format!(
                    "{operator} requires array inputs, but input is of type {found}"
                )));
            }
        };
        for element in array.iter() {
            tick()?;
            self.inner.add(Evaluated::Borrowed(element), root)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.inner.finish()
    }

    fn partial(&self) -> Value {
        self.inner.partial()
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        self.inner.absorb(partial)
    }

    fn size_bytes(&self) -> usize {
        self.inner.size_bytes()
    }
}
