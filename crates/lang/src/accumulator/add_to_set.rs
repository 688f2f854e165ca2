//! `$addToSet`: each value once, by equality across types and by the collation, in the order they were first seen.

use arbor_bson::{ArrayBuf, Doc, Value, ValueRef};
use hashbrown::HashSet;

use super::{State, elements};
use crate::expression::Evaluated;
use crate::{Collation, Result};

#[derive(Debug, Default)]
pub(super) struct AddToSet {
    values: ArrayBuf,
    seen: HashSet<Vec<u8>>,
    seen_bytes: usize,
    collation: Collation,
}

impl AddToSet {
    pub(super) fn new(collation: &Collation) -> AddToSet {
        AddToSet { collation: collation.clone(), ..AddToSet::default() }
    }

    fn add_value(&mut self, value: ValueRef) {
        let key = self.collation.key_of(value).bytes;
        let bytes = key.len();
        if self.seen.insert(key) {
            self.seen_bytes += bytes + size_of::<Vec<u8>>();
            self.values.push(value);
        }
    }
}

impl State for AddToSet {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        value.get().into_iter().for_each(|value| self.add_value(value));
        Ok(())
    }

    fn partial(&self) -> Value {
        Value::Array(self.values.as_array().to_buf())
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        elements(partial).for_each(|value| self.add_value(value));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        Value::Array(self.values)
    }

    fn size_bytes(&self) -> usize {
        self.seen_bytes + self.values.as_array().as_bytes().len()
    }
}
