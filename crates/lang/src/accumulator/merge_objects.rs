//! `$mergeObjects`: the documents laid over each other, later fields win.

use arbor_bson::{Doc, Value, ValueRef};

use super::{State, value_bytes};
use crate::Result;
use crate::by_name::ByName;
use crate::expression::{Evaluated, not_a_document};

#[derive(Debug, Default)]
pub(super) struct MergeObjects {
    fields: ByName<Value>,
    bytes: usize,
}

impl MergeObjects {
    fn merge(&mut self, doc: Doc) {
        for (name, value) in doc {
            let known = self.fields.len();
            let field = self.fields.get_or_add(name, || Value::Null);
            let (old, new) = (std::mem::replace(field, value.to_value()), value_bytes(field));
            let name_bytes = if self.fields.len() > known { name.len() } else { 0 };
            self.bytes = (self.bytes + new + name_bytes).saturating_sub(value_bytes(&old));
        }
    }

    fn merged(&self) -> Value {
        Value::Document(self.fields.iter().map(|(name, value)| (name, value)).collect())
    }
}

impl State for MergeObjects {
    fn add(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        match value.or_null() {
            _ if value.is_nullish() => {}
            ValueRef::Document(doc) => self.merge(doc),
            other => return Err(not_a_document(other)),
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Value {
        self.merged()
    }

    fn partial(&self) -> Value {
        self.merged()
    }

    fn absorb(&mut self, partial: ValueRef) -> Result<()> {
        if let ValueRef::Document(doc) = partial {
            self.merge(doc);
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.bytes
    }
}
